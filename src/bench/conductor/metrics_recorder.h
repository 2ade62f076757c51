// The time series of a run: metrics.jsonl, one line per --metrics-interval, and its summary.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "bench/conductor/gpu_sampler.h"
#include "bench/conductor/measuring_child.h"
#include "monitoring/metric_summary.h"
#include "sources/system_sampler.h"
#include "types/bench_result.h"
#include "types/sample.h"

namespace headroom::bench {

class MetricsRecorder {
 public:
  // If the file cannot be written, that is a warning, not an error: the models' figures do not depend on it.
  explicit MetricsRecorder(const std::filesystem::path& path);

  // Writes one line: the machine and each worker.
  void record(const std::string& phase, const std::vector<WorkerRun*>& runs);
  const std::vector<MetricSummary>& summary() const { return totals_.summaries(); }
  // Drops rates counted so far: kills and page faults of the limit's probe are not part of the run.
  void restart_rates() { sampler_.sample(); }
  // Adds the facts about the machine's GPUs, as their driver reports them.
  void add_gpus_to(HostInfo& host) { gpus_.add_to(host); }
  // Why GPU metrics ended before the run did. Returned once.
  std::optional<std::string> take_problem() { return gpus_.take_problem(); }
  // A warning if the clock was throttled since the last call: "the clock was throttled while it ran (GPU 0:
  // software power cap)". `while_what` is "it ran".
  std::optional<std::string> take_throttling(std::string_view while_what);

 private:
  sources::SystemSampler sampler_;
  GpuSampler gpus_;
  UniqueFd file_;
  Nanoseconds started_;
  monitoring::MetricAccumulator totals_;
  bool throttled_ = false, failed_ = false;
  std::set<std::string> throttling_;  // "GPU 0: software power cap"
};

}  // namespace headroom::bench
