// One process's memory and CPU time, from /proc/PID.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "base/result.h"
#include "model/sample.h"

namespace headroom::sources {

enum class ProcessDetail {
  status,    // /proc/PID/status and stat: cheap
  with_pss,  // also smaps_rollup (smaps before Linux 4.14): walks the page tables, about 1 ms per GiB
};

// Fields that the kernel does not give stay absent. A process that has ended gives an empty ProcessMemory.
ProcessMemory read_process_memory(pid_t pid, ProcessDetail detail, const std::filesystem::path& root = "/");

// When it started, in ticks since the machine did (field 22 of its stat file): with it a number names one
// process alone. Absent if the process has ended.
std::optional<std::int64_t> read_process_start(pid_t pid, const std::filesystem::path& root = "/");

// Sets VmHWM back to VmRSS (writes 5 to clear_refs), so that the next peak belongs to the next phase. False
// if the kernel does not offer it.
bool reset_peak_rss(pid_t pid);

}  // namespace headroom::sources
