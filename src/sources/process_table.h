// The processes of the machine: all of them cheaply, and those that are chosen in detail.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/sample.h"

namespace headroom::sources {

// Which processes a sample is to have.
struct ProcessChoice {
  std::size_t largest = 0;   // so many by resident memory; of all processes if nothing is followed
  std::vector<pid_t> roots;  // these and what comes from them, also after a parent has ended
  std::string name;          // these and what comes from them; as the kernel has the name, or a part of it
  bool with_pss = false;     // walks page tables: 1 ms for a GiB
  bool follows() const { return !roots.empty() || !name.empty(); }
};

class ProcessTable {
 public:
  explicit ProcessTable(const std::filesystem::path& root = "/");
  ~ProcessTable();
  ProcessTable(ProcessTable&&) noexcept;
  // Puts the chosen into sample.processes, the largest first. What NvMap or a driver told of a process's GPU
  // memory (in sample.processes and sample.gpus) goes into its `gpu`.
  void read(SystemSample& sample, const ProcessChoice& choice);
  // Processes of the machine at the last read.
  std::size_t count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headroom::sources
