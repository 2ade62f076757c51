// The time series of a run: metrics.jsonl, one line at each --metrics-interval, and the summary of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
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
  std::vector<MetricSummary> summary() const;
  // True if a throttle alert was seen since the last call.
  bool take_throttled();
  // Sources that this machine has, for the log.
  std::vector<std::string> sources() const { return sampler_.found(); }

 private:
  sources::SystemSampler sampler_;
  UniqueFd file_;
  Nanoseconds started_;
  std::vector<SystemSample> samples_;  // thinned to every second one whenever it is full
  std::int64_t stride_ = 1, skipped_ = 0;
  bool throttled_ = false, failed_ = false;
};

}  // namespace headroom::bench
