#include "comparison/run_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "monitoring/latency_summary.h"

namespace headroom::comparison {
namespace {

using Maybe = std::optional<double>;

Maybe number(const std::optional<Bytes>& bytes) {
  return bytes ? Maybe(static_cast<double>(bytes->count)) : std::nullopt;
}
Maybe number(const std::optional<Nanoseconds>& time) {
  return time ? Maybe(static_cast<double>(time->count)) : std::nullopt;
}

template <std::optional<Bytes> ModelMemory::*field>
Maybe memory(const MeasuredFigures& run) {
  return number(run.model.memory.*field);
}

// Of all devices; absent if no ledger was there.
template <std::optional<Bytes> GpuMemory::*field>
Maybe device_memory(const MeasuredFigures& run) {
  Maybe sum;
  for (const GpuMemory& gpu : run.model.gpu_memory)
    if (gpu.*field) sum = sum.value_or(0) + static_cast<double>((gpu.*field)->count);
  return sum;
}

template <Nanoseconds LatencySummary::*field>
Maybe latency(const MeasuredFigures& run) {
  if (!run.model.inference || run.model.inference->n == 0) return std::nullopt;
  return number(std::optional(run.model.inference.value().*field));
}

Maybe inference_at(const MeasuredFigures& run, double percentile) {
  if (run.frames.empty()) return std::nullopt;
  std::vector<std::int64_t> times;
  for (const FrameTimes& frame : run.frames) times.push_back(frame.inference.count);
  const auto at =
      times.begin() + static_cast<std::ptrdiff_t>(monitoring::nearest_rank_index(times.size(), percentile));
  std::nth_element(times.begin(), at, times.end());
  return static_cast<double>(*at);
}

Maybe undisturbed(const MeasuredFigures& run) {
  return run.frames.empty() ? run.latency : inference_at(run, run.undisturbed);
}

Maybe mean_latency(const MeasuredFigures& run) {
  return run.model.inference ? Maybe(run.model.inference->mean_ns) : std::nullopt;
}
Maybe end_to_end(const MeasuredFigures& run) {
  return run.model.end_to_end ? number(std::optional(run.model.end_to_end->p50)) : std::nullopt;
}
Maybe device_latency(const MeasuredFigures& run) {
  return run.model.device_time ? number(std::optional(run.model.device_time->p50)) : std::nullopt;
}
Maybe detections(const MeasuredFigures& run) {
  return run.model.detections ? Maybe(run.model.detections->mean) : std::nullopt;
}

// Two runs of one program differ by some 40 pages: which pages of the libraries' files are mapped around a
// fault depends on the page cache.
constexpr double kPages = 160 << 10, kFewPages = 256 << 10;

// Resident memory by phase: of what two runs differ by, this share of it.
constexpr RunMetric resident(std::string_view name, std::string_view help,
                             Maybe (*value)(const MeasuredFigures& run), double alpha, double share,
                             double alpha_of_runs = 0) {
  RunMetric metric{name, help, MetricUnit::bytes, value, alpha, share, kPages, 0.005, kFewPages};
  metric.holds_file_pages = true;
  metric.alpha_of_runs = alpha_of_runs;
  return metric;
}

constexpr RunMetric more_is_better(RunMetric metric) {
  metric.more_is_better = true;
  return metric;
}

constexpr RunMetric judged_by_runs(RunMetric metric, double alpha_of_runs) {
  metric.alpha_of_runs = alpha_of_runs;
  return metric;
}

// How much of a library's pages a process is charged with depends on who else maps them at that moment: of
// 80 runs of one thing, some beside a second bench, the shares differed by up to 35 %
// (benchmarks/results/diff_power.md).
constexpr RunMetric proportional(std::string_view name, std::string_view help,
                                 Maybe (*value)(const MeasuredFigures& run)) {
  RunMetric metric = resident(name, help, value, 0, 0.005);
  metric.shared_pages = 0.15;
  return metric;
}

// The tail of the same runs moved by a factor of three from run to run, and the longer it was the more
// (benchmarks/results/diff_power.md).
constexpr RunMetric tail_of_frames(std::string_view name, std::string_view help,
                                   Maybe (*value)(const MeasuredFigures& run), double percentile,
                                   double share) {
  RunMetric metric{name, help, MetricUnit::nanoseconds, value, 0, share, 0, 0.01, 0, percentile, 1};
  metric.tail = 0.35;
  return metric;
}

constexpr RunMetric mean_of_frames(std::string_view name, std::string_view help, MetricUnit unit,
                                   Maybe (*value)(const MeasuredFigures& run), bool more_is_better) {
  RunMetric metric{name, help, unit, value, 0, 0.08, 0, 0.01, 0, 0, 1};
  metric.more_is_better = more_is_better;
  metric.is_mean = true;
  return metric;
}

constexpr std::array kMetrics{
    resident("runtime", "resident with the bare runtime, before the model", memory<&ModelMemory::runtime>, 0,
             0.002),
    resident("loaded", "resident once the model is loaded", memory<&ModelMemory::loaded>, 0, 0.002),
    resident("load_peak", "peak while the model loads", memory<&ModelMemory::load_peak>, 0.005, 0.002, 0.005),
    resident("run_mean", "mean of the samples while it runs", memory<&ModelMemory::run_mean>, 0, 0.003),
    resident("run_peak", "peak from warm-up to the last frame", memory<&ModelMemory::run_peak>, 0.015, 0.002,
             0.01),
    resident("residual", "still resident after the model is released", memory<&ModelMemory::residual>, 0,
             0.002),
    RunMetric{"file_pages", "resident file pages, mostly code", MetricUnit::bytes,
              memory<&ModelMemory::file_backed_peak>, 0, 0.15, kPages, 0.005, kFewPages},
    proportional("pss_run_peak", "largest proportional share while it runs",
                 memory<&ModelMemory::pss_run_peak>),
    RunMetric{"cgroup_peak", "peak of the control group", MetricUnit::bytes,
              memory<&ModelMemory::cgroup_peak>, 0, 0.005, kPages, 0.005, kFewPages},
    judged_by_runs(
        RunMetric{"gpu_load_peak", "peak of requested GPU memory while the model loads", MetricUnit::bytes,
                  device_memory<&GpuMemory::load_peak>, 0.0025, 0.005, 0, 0.005, kFewPages},
        0.0025),
    judged_by_runs(RunMetric{"gpu_run_peak", "peak of requested GPU memory while it runs", MetricUnit::bytes,
                             device_memory<&GpuMemory::run_peak>, 0.0025, 0.005, 0, 0.005, kFewPages},
                   0.0025),
    judged_by_runs(
        RunMetric{"latency", "undisturbed inference: 2nd percentile of the frames", MetricUnit::nanoseconds,
                  undisturbed, 0.025, 0.026, 0, 0.01, 0, kUndisturbed, 0.35},
        0.0125),
    judged_by_runs(RunMetric{"p50", "inference, median of the frames", MetricUnit::nanoseconds,
                             latency<&LatencySummary::p50>, 0, 0.02, 0, 0.01, 0, 0.50, 1},
                   0.005),
    tail_of_frames("p90", "inference, 90th percentile", latency<&LatencySummary::p90>, 0.90, 0.10),
    judged_by_runs(
        tail_of_frames("p99", "inference, 99th percentile", latency<&LatencySummary::p99>, 0.99, 0.20),
        0.005),
    mean_of_frames("mean", "inference, mean", MetricUnit::nanoseconds, mean_latency, false),
    RunMetric{"device_p50", "inference by the GPU's clock, median", MetricUnit::nanoseconds, device_latency,
              0, 0.02, 0, 0.01},
    RunMetric{"end_to_end", "decoding to detections, median", MetricUnit::nanoseconds, end_to_end, 0, 0.03, 0,
              0.01, 0, 0, 1},
    judged_by_runs(mean_of_frames(
                       "fps", "1 / mean inference", MetricUnit::per_second,
                       [](const MeasuredFigures& run) { return run.model.fps; }, true),
                   0.0075),
    more_is_better(RunMetric{"pipeline_fps", "frames / sum of their end-to-end times", MetricUnit::per_second,
                             [](const MeasuredFigures& run) { return run.model.pipeline_fps; }, 0, 0.08, 0,
                             0.01, 0, 0, 1}),
    RunMetric{"load_time", "loading the model", MetricUnit::nanoseconds,
              [](const MeasuredFigures& run) { return number(run.model.model_load_time); }, 0, 0.55, 0, 0.02},
    RunMetric{"detections", "detections per frame, mean", MetricUnit::count, detections, 0.0, 0, 0, 1e-9, 0},
    RunMetric{"file_size", "size of the model's files", MetricUnit::bytes,
              [](const MeasuredFigures& run) { return number(run.model.file_size); }, 0, 0, 0, 0, 0},
};

}  // namespace

std::optional<double> disturbance_of(const MeasuredFigures& run) {
  if (run.frames.empty()) return run.disturbance;
  const Maybe low = undisturbed(run), median = inference_at(run, 0.5);
  return low && *low > 0 ? Maybe(std::log(*median / *low)) : std::nullopt;
}

double tail_of(const ModelResult& model) {
  const auto& times = model.inference;
  if (!times || times->p50.count <= 0 || times->p99 <= times->p50) return 0;
  return std::log(static_cast<double>(times->p99.count) / static_cast<double>(times->p50.count));
}

std::span<const RunMetric> run_metrics() { return kMetrics; }

const RunMetric* find_run_metric(std::string_view name) {
  const auto found = std::find_if(kMetrics.begin(), kMetrics.end(),
                                  [&](const RunMetric& metric) { return metric.name == name; });
  return found == kMetrics.end() ? nullptr : &*found;
}

std::vector<std::string> run_metric_names() {
  std::vector<std::string> names;
  for (const RunMetric& metric : kMetrics) names.emplace_back(metric.name);
  return names;
}

}  // namespace headroom::comparison
