// Reads one process's memory and CPU time from /proc/PID.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "base/result.h"
#include "types/sample.h"

namespace headroom::sources {

enum class ProcessDetail {
  status,    // /proc/PID/status and stat: cheap
  with_pss,  // also smaps_rollup (smaps before Linux 4.14): walks the page tables, about 1 ms per GiB
};

// Fields that the kernel does not provide stay absent. For an ended process the result is empty.
ProcessMemory read_process_memory(pid_t pid, ProcessDetail detail, const std::filesystem::path& root = "/");

// The start time in ticks since boot (field 22 of the stat file). With it a pid identifies a process
// uniquely. Absent if the process has ended.
std::optional<std::int64_t> read_process_start(pid_t pid, const std::filesystem::path& root = "/");

// Resets VmHWM to VmRSS (writes 5 to clear_refs), so that the next peak belongs to the next phase. Returns
// false if the kernel does not support it.
bool reset_peak_rss(pid_t pid);

}  // namespace headroom::sources
