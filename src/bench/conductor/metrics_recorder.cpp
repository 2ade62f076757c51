#include "bench/conductor/metrics_recorder.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "report/run/metrics_json.h"

namespace headroom::bench {

MetricsRecorder::MetricsRecorder(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644)),
      started_(monotonic_now()) {
  sampler_.sample();  // rates need an earlier sample
}

void MetricsRecorder::record(const std::string& phase, const std::vector<WorkerRun*>& runs) {
  report::MetricsLine line;
  line.system = sampler_.sample();
  gpus_.add_to(line.system);
  line.since_start = monotonic_now() - started_;
  line.phase = phase;
  if (runs.size() == 1) line.model = runs.front()->label();
  for (const WorkerRun* run : runs) {
    if (run->has_ended()) continue;
    line.processes.push_back(
        {run->label(), run->pid(), std::string(name_of(run->phase())), run->last_sample()});
  }
  throttled_ = throttled_ || line.system.throttled == true;
  for (const GpuSample& gpu : line.system.gpus)
    for (const std::string& reason : gpu.throttle_reasons)
      throttling_.insert(fmt::format("GPU {}: {}", gpu.index.value_or(0), reason));
  totals_.add(line.system);
  if (failed_) return;
  if (auto written = write_all(file_.get(), to_line(report::to_json(line)) + "\n"); !written) {
    failed_ = true;
    log::warning("metrics.jsonl is incomplete: {}", written.error().why);
  }
}

std::optional<std::string> MetricsRecorder::take_throttling(std::string_view while_what) {
  const auto reasons = std::exchange(throttling_, {});
  if (!std::exchange(throttled_, false)) return std::nullopt;
  std::string text = fmt::format("the clock was throttled while {}", while_what);
  if (!reasons.empty()) text += fmt::format(" ({})", fmt::join(reasons, ", "));
  return text;
}

}  // namespace headroom::bench
