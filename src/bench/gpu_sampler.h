// NVIDIA's GPUs in the metrics of a run, by a child (hidden verb `_gpu_metrics`) that loads the driver's
// library: in the conductor it would take 19 MiB, and what it does wrong would end the run.
//
// The child's first line on descriptor 3 tells the host's GPUs. From then on a byte on its standard input
// asks for a sample, which comes back as a line of metrics.jsonl that has only what the driver tells. It ends
// with its standard input, and with its parent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/subprocess.h"
#include "base/units.h"
#include "bench/line_reader.h"
#include "model/bench_result.h"
#include "model/sample.h"

namespace headroom::bench {

class GpuSampler {
 public:
  // Starts the child where this machine has NVIDIA's driver. Elsewhere, and where the driver gives no
  // metrics, nothing is ever filled in.
  GpuSampler();
  // What does not change of the GPUs. The first call waits for it: a driver that first has to initialise the
  // GPUs takes seconds.
  void add_to(HostInfo& host);
  // Figures of now. A driver that does not answer within 200 ms leaves them out of this sample.
  void add_to(SystemSample& sample);
  // Said once, when the metrics have ended before the run: by what.
  std::optional<std::string> take_problem();

 private:
  void start();
  std::optional<std::string> next_line(Nanoseconds patience);
  void relay_log();
  void give_up(const std::string& why);

  Subprocess child_;
  UniqueFd requests_;
  LineReader answers_, log_;
  std::vector<std::string> lines_;  // that have come and were not looked at
  bool is_open_ = false;
  bool is_awaited_ = false;  // an answer, which came too late or has not come yet
  Nanoseconds asked_;
  std::optional<std::string> problem_;
};

// The child's side. Returns the exit code.
int run_gpu_metrics_process();

}  // namespace headroom::bench
