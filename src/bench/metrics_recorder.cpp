#include "bench/metrics_recorder.h"

#include <fcntl.h>

#include "analysis/metric_summary.h"
#include "base/json.h"
#include "base/log.h"
#include "report/metrics_json.h"

namespace headroom::bench {
namespace {
// Samples kept for the summary; at the default interval this is a quarter of an hour before thinning starts.
constexpr std::size_t kSamplesKept = 2000;
}  // namespace

MetricsRecorder::MetricsRecorder(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644)),
      started_(monotonic_now()) {
  sampler_.sample();  // the first has no rates
}

void MetricsRecorder::record(const std::string& phase, const std::vector<WorkerRun*>& runs) {
  report::MetricsLine line;
  line.system = sampler_.sample();
  line.since_start = monotonic_now() - started_;
  line.phase = phase;
  if (runs.size() == 1) line.model = runs.front()->label();
  for (const WorkerRun* run : runs)
    line.processes.push_back(
        {run->label(), run->pid(), std::string(name_of(run->phase())), run->last_sample()});
  throttled_ = throttled_ || line.system.throttled == true;
  if (++skipped_ >= stride_) {
    skipped_ = 0;
    samples_.push_back(line.system);
  }
  if (samples_.size() >= kSamplesKept) {
    for (std::size_t i = 0; 2 * i < samples_.size(); ++i) samples_[i] = samples_[2 * i];
    samples_.resize((samples_.size() + 1) / 2);
    stride_ *= 2;
  }
  if (failed_) return;
  if (auto written = write_all(file_.get(), to_line(report::to_json(line)) + "\n"); !written) {
    failed_ = true;
    log::warning("metrics.jsonl is cut short: {}", written.error().why);
  }
}

std::vector<MetricSummary> MetricsRecorder::summary() const { return analysis::summarise_metrics(samples_); }

bool MetricsRecorder::take_throttled() {
  const bool seen = throttled_;
  throttled_ = false;
  return seen;
}

}  // namespace headroom::bench
