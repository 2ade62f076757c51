// Samples of this machine, or of a file tree of another, with its GPUs and processes.
#pragma once

#include <filesystem>
#include <optional>

#include "bench/gpu_sampler.h"
#include "model/sample.h"
#include "sources/process_table.h"
#include "sources/system_sampler.h"

namespace headroom::tui {

class TopFeed {
 public:
  explicit TopFeed(const std::filesystem::path& root);
  // A driver that first has to initialise its GPUs takes seconds.
  void wait_for_gpus();
  void sample_into(SystemSample& sample, const sources::ProcessChoice& choice);
  std::size_t processes() const { return table_.count(); }
  // Name of the machine, and the board where there is one.
  const std::string& name() const { return name_; }

 private:
  sources::SystemSampler system_;
  sources::ProcessTable table_;
  std::optional<bench::GpuSampler> gpus_;  // not under another root: they are this machine's
  std::string name_;
};

}  // namespace headroom::tui
