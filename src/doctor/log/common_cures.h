// Cures that several rules have. What depends on the machine is read by the command where it is run.
#pragma once

#include <initializer_list>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// The lists one after the other.
template <class Row>
std::vector<Row> joined(std::initializer_list<std::vector<Row>> lists) {
  std::vector<Row> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

inline constexpr std::string_view kDropPageCache = "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches";
inline constexpr std::string_view kSeeVulkanLimits =
    "vulkaninfo | grep -E 'maxMemoryAllocationSize|heapSize|size.*GiB'";

inline constexpr CureRow kSeeHolders{"see which processes hold the memory", "headroom top"};
inline constexpr CureRow kSeeHoldersNow{"see which processes hold the memory while it happens",
                                        "headroom top"};
inline constexpr CureRow kSeeHoldersAtStart{"see which processes hold the memory while it starts",
                                            "headroom top"};
inline constexpr CureRow kSeeOthersOnGpu{"see which other processes hold GPU memory", "headroom top"};
inline constexpr CureRow kEndHolder{"find the process that holds the memory, and end it", "headroom top"};
inline constexpr CureRow kEndHolderOfRest{"find the process that holds the rest, and end it", "headroom top"};
inline constexpr CureRow kTraceStacks{"see which call stacks hold the memory", "headroom trace -- COMMAND"};
inline constexpr CureRow kWatchGrowth{"check whether its memory keeps growing", "headroom watch -- COMMAND"};
inline constexpr CureRow kSmallerBatch{"use a smaller batch or input", "batch_size = batch_size // 2"};
// What a step asks for grows with its batch.
inline constexpr CureRow kHalfOfBatch{"halve the batch size, or use a smaller input",
                                      "batch_size = batch_size // 2", "requested_bytes/2"};
inline constexpr CureRow kShellLimits{"check the shell's limits",
                                      "ulimit -a; cat /proc/sys/vm/overcommit_memory"};
inline constexpr CureRow kDropPageCacheOnJetson{"on a Jetson, drop the page cache before the program starts",
                                                kDropPageCache};
inline constexpr CureRow kCompactMemory{"compact free memory into large blocks",
                                        "echo 1 | sudo tee /proc/sys/vm/compact_memory"};
// As keep_pages_free() of cure_commands.h, without the machine's memory.
inline constexpr CureRow kKeepPagesFree{
    "keep more pages free: 1/30 of the memory",
    "sudo sysctl vm.min_free_kbytes=$(awk '/MemTotal/ {print int($2/30)}' /proc/meminfo)"};
inline constexpr CureRow kMoreThanIntelsPiece{"allow Intel's driver to allocate more than 4 GiB in one piece",
                                              "UR_L0_USE_RELAXED_ALLOCATION_LIMITS=1"};

// What several rules on kills share.
inline constexpr std::string_view kKilledForMemory = "process-killed-for-memory";
inline constexpr CureRow kCheckKernelLog{"check whether the kernel's OOM killer did it",
                                         "journalctl -k | headroom doctor -"};
inline constexpr CureRow kReadKernelReport{"read the kernel's report of the kill",
                                           "journalctl -k | headroom doctor -"};
inline constexpr CureRow kMeasureNeed{"measure how much memory it needs", "headroom trace -- COMMAND"};
inline constexpr std::string_view kSigkillCause =
    "The kernel sends SIGKILL when memory runs out. Users, supervisors and schedulers send it too. The log "
    "does not say who sent the signal.";
inline constexpr std::string_view kContainerLimitCause =
    "The container reached its limit. Either the limit is smaller than the peak of its processes, or a "
    "process keeps growing.";
inline constexpr std::string_view kNoMemoryLeftCause =
    "The machine or the control group had no memory left. The log does not say which process held it.";

}  // namespace headroom::doctor
