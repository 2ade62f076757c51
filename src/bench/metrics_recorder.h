// The time series of a run: metrics.jsonl, one line at each --metrics-interval, and the summary of it.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/metric_summary.h"
#include "base/files.h"
#include "bench/gpu_sampler.h"
#include "bench/worker_run.h"
#include "model/bench_result.h"
#include "model/sample.h"
#include "sources/system_sampler.h"

namespace headroom::bench {

class MetricsRecorder {
 public:
  // A file that cannot be written is a warning, not an error: the figures of the models do not depend on it.
  explicit MetricsRecorder(const std::filesystem::path& path);

  // One line: the machine, and each worker.
  void record(const std::string& phase, const std::vector<WorkerRun*>& runs);
  const std::vector<MetricSummary>& summary() const { return totals_.summaries(); }
  // What counted up until now (kills and page faults of the limit's probe) is none of the run's.
  void restart_rates() { sampler_.sample(); }
  // The facts of the machine's GPUs, as their driver tells them.
  void add_gpus_to(HostInfo& host) { gpus_.add_to(host); }
  // Said once: why metrics of GPUs ended before the run did.
  std::optional<std::string> take_problem() { return gpus_.take_problem(); }
  // What is said of throttling since the last call: "the clock was throttled while it ran (GPU 0: software
  // power cap)". Nothing if there was none. `while_what` is "it ran".
  std::optional<std::string> take_throttling(std::string_view while_what);

 private:
  sources::SystemSampler sampler_;
  GpuSampler gpus_;
  UniqueFd file_;
  Nanoseconds started_;
  analysis::MetricAccumulator totals_;
  bool throttled_ = false, failed_ = false;
  std::set<std::string> throttling_;  // "GPU 0: software power cap"
};

}  // namespace headroom::bench
