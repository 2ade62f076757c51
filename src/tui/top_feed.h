// Takes samples of this machine, with GPUs and processes, or of another machine's file tree.
#pragma once

#include <filesystem>
#include <optional>

#include "bench/conductor/gpu_sampler.h"
#include "sources/process_table.h"
#include "sources/system_sampler.h"
#include "types/sample.h"

namespace headroom::tui {

class TopFeed {
 public:
  explicit TopFeed(const std::filesystem::path& root);
  // Waits until the driver has initialised its GPUs, which can take seconds.
  void wait_for_gpus();
  void sample_into(SystemSample& sample, const sources::ProcessChoice& choice);
  std::size_t processes() const { return table_.count(); }
  // Host name, and the board if known.
  const std::string& name() const { return name_; }

 private:
  sources::SystemSampler system_;
  sources::ProcessTable table_;
  std::optional<bench::GpuSampler> gpus_;  // absent with another root: NVML reports this machine's GPUs
  std::string name_;
};

}  // namespace headroom::tui
