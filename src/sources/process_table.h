// The processes of the machine: basic figures of all, details of the chosen ones.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "types/sample.h"

namespace headroom::sources {

// Which processes to put into a sample.
struct ProcessChoice {
  // At most this many processes, the largest by resident or GPU memory; 0: all. They are chosen among the
  // followed processes, or among all processes if none are followed.
  std::size_t largest = 0;
  std::vector<pid_t> roots;  // follow these and their descendants, even after a parent has ended
  std::string name;          // follow processes whose name contains this, and their descendants
  bool with_pss = false;     // also proportional memory; reading it takes 1 ms per GiB
  bool follows() const { return !roots.empty() || !name.empty(); }
};

class ProcessTable {
 public:
  explicit ProcessTable(const std::filesystem::path& root = "/");
  ~ProcessTable();
  ProcessTable(ProcessTable&&) noexcept;
  // Puts the chosen processes into sample.processes, the largest first. GPU memory of a process that NvMap
  // or a driver reported before (in sample.processes and sample.gpus) goes into its `gpu`.
  void read(SystemSample& sample, const ProcessChoice& choice);
  // The number of processes on the machine at the last read.
  std::size_t count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads one process's memory and CPU time from /proc/PID.
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
