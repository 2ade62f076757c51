// NVIDIA's GPUs in the metrics of a run, by a child (hidden verb `_gpu_metrics`) that loads the driver's
// library: in the conductor it would take 19 MiB, and what it does wrong would end the run.
//
// The child's first line on descriptor 3 tells the host's GPUs. From then on a byte on its standard input
// asks for a sample, which comes back as a line of metrics.jsonl that has only what the driver tells. It ends
// with its standard input, and with its parent; with exit code 0 where there is nothing to tell.
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

struct GpuSamplerOptions {
  // Where memory is short the child is spared as the monitor that it works for (base/survive.h). A run's
  // child is not: it would be more of a load than what is measured.
  bool is_spared = false;
  // How long after its end the child is started anew, and where there was no driver, when it is looked for
  // again. Absent: never.
  std::optional<Nanoseconds> again_after;

  static GpuSamplerOptions of_monitor() { return {true, Nanoseconds{60'000'000'000}}; }
};

class GpuSampler {
 public:
  // Starts the child where this machine has NVIDIA's driver. Elsewhere, and where the driver gives no
  // metrics, nothing is filled in.
  explicit GpuSampler(GpuSamplerOptions options = {});
  // Until the child has told the GPUs, or gives none, and at most this long: a driver that first has to
  // initialise the GPUs takes seconds, and samples before that are without them.
  void wait(Nanoseconds patience);
  // What does not change of the GPUs. The first call waits for it, up to a minute.
  void add_to(HostInfo& host);
  // Figures of now. A driver that does not answer within 200 ms leaves them out of this sample.
  void add_to(SystemSample& sample);
  // Said once, when the metrics have ended before the run: by what.
  std::optional<std::string> take_problem();

 private:
  void start();
  void start_again();
  std::optional<std::string> next_line(Nanoseconds patience);
  bool take_facts(Nanoseconds patience);
  void relay_log();
  void end();
  void give_up(const std::string& why);

  GpuSamplerOptions options_;

  Subprocess child_;
  UniqueFd requests_;
  LineReader answers_, log_;
  std::vector<std::string> lines_;  // that have come and were not looked at
  bool is_open_ = false;
  Nanoseconds started_;
  std::optional<Nanoseconds> again_at_;
  std::optional<HostInfo> facts_;  // the child's first line
  bool is_awaited_ = false;        // an answer, which came too late or has not come yet
  Nanoseconds asked_;
  bool has_given_up_ = false;  // which is said once
  std::optional<std::string> problem_;
};

// The child's side. Returns the exit code.
int run_gpu_metrics_process(bool is_spared);

}  // namespace headroom::bench
