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

// The sum of all devices.
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

Maybe undisturbed(const MeasuredFigures& run) {
  if (run.frames.empty()) return run.latency;
  std::vector<std::int64_t> times;
  for (const FrameTimes& frame : run.frames) times.push_back(frame.inference.count);
  const auto at =
      times.begin() + static_cast<std::ptrdiff_t>(monitoring::nearest_rank_index(times.size(), kUndisturbed));
  std::nth_element(times.begin(), at, times.end());
  return static_cast<double>(*at);
}

Maybe mean_latency(const MeasuredFigures& run) {
  return run.model.inference ? Maybe(run.model.inference->mean_ns) : std::nullopt;
}
template <std::optional<LatencySummary> ModelResult::*stage>
Maybe median(const MeasuredFigures& run) {
  return run.model.*stage ? number(std::optional((run.model.*stage)->p50)) : std::nullopt;
}
Maybe detections(const MeasuredFigures& run) {
  return run.model.detections ? Maybe(run.model.detections->mean) : std::nullopt;
}

// Two runs of one program differ by some 40 pages: the page cache decides which pages are mapped around a
// fault.
constexpr double kPages = 160 << 10, kFewPages = 256 << 10;

using Value = Maybe (*)(const MeasuredFigures& run);

constexpr RunMetric memory_of(std::string_view name, std::string_view help, Value value, double share,
                              double alpha = 0) {
  return {.name = name,
          .help = help,
          .unit = MetricUnit::bytes,
          .value = value,
          .alpha = alpha,
          .run_to_run_share = share,
          .run_to_run = kPages,
          .least_share = 0.005,
          .least = kFewPages};
}

// Resident memory by phase.
constexpr RunMetric resident(std::string_view name, std::string_view help, Value value, double share,
                             double alpha = 0) {
  RunMetric metric = memory_of(name, help, value, share, alpha);
  metric.holds_file_pages = true;
  return metric;
}

// The share of a library's pages depends on who else maps them: of 80 equal runs, some beside a second
// bench, the shares differed by up to 35 % (benchmarks/results/diff_power.md).
constexpr RunMetric proportional(std::string_view name, std::string_view help, Value value) {
  RunMetric metric = resident(name, help, value, 0.005);
  metric.shared_pages = 0.15;
  return metric;
}

// Requested memory, without pages of files.
constexpr RunMetric requested(std::string_view name, std::string_view help, Value value, double alpha) {
  RunMetric metric = memory_of(name, help, value, 0.005, alpha);
  metric.run_to_run = 0;
  return metric;
}

constexpr RunMetric time_of(std::string_view name, std::string_view help, Value value, double percentile = 0,
                            double alpha = 0) {
  return {.name = name,
          .help = help,
          .unit = MetricUnit::nanoseconds,
          .value = value,
          .alpha = alpha,
          .least_share = 0.01,
          .percentile = percentile};
}

constexpr RunMetric rate_of(std::string_view name, std::string_view help, Value value, double alpha = 0) {
  RunMetric metric = time_of(name, help, value, 0, alpha);
  metric.unit = MetricUnit::per_second;
  metric.more_is_better = true;
  return metric;
}

constexpr std::array kMetrics{
    resident("runtime", "resident with the bare runtime, before the model", memory<&ModelMemory::runtime>,
             0.002),
    resident("loaded", "resident once the model is loaded", memory<&ModelMemory::loaded>, 0.002),
    resident("load_peak", "peak while the model loads", memory<&ModelMemory::load_peak>, 0.002, 0.005),
    resident("run_mean", "mean of the samples while it runs", memory<&ModelMemory::run_mean>, 0.003),
    resident("run_peak", "peak from warm-up to the last frame", memory<&ModelMemory::run_peak>, 0.002, 0.015),
    resident("residual", "still resident after the model is released", memory<&ModelMemory::residual>, 0.002),
    memory_of("file_pages", "resident file pages, mostly code", memory<&ModelMemory::file_backed_peak>, 0.15),
    proportional("pss_run_peak", "largest proportional share while it runs",
                 memory<&ModelMemory::pss_run_peak>),
    memory_of("cgroup_peak", "peak of the control group", memory<&ModelMemory::cgroup_peak>, 0.005),
    requested("gpu_load_peak", "peak of requested GPU memory while the model loads",
              device_memory<&GpuMemory::load_peak>, 0.0025),
    requested("gpu_run_peak", "peak of requested GPU memory while it runs",
              device_memory<&GpuMemory::run_peak>, 0.0025),
    time_of("latency", "undisturbed inference: 2nd percentile of the frames", undisturbed, kUndisturbed,
            0.0125),
    time_of("p50", "inference, median of the frames", latency<&LatencySummary::p50>, 0.50, 0.005),
    time_of("p90", "inference, 90th percentile", latency<&LatencySummary::p90>, 0.90),
    time_of("p99", "inference, 99th percentile", latency<&LatencySummary::p99>, 0.99, 0.0025),
    time_of("mean", "inference, mean", mean_latency),
    time_of("device_p50", "inference by the GPU's clock, median", median<&ModelResult::device_time>),
    time_of("end_to_end", "decoding to detections, median", median<&ModelResult::end_to_end>),
    rate_of(
        "fps", "1 / mean inference", [](const MeasuredFigures& run) { return run.model.fps; }, 0.005),
    rate_of("pipeline_fps", "frames / sum of their end-to-end times",
            [](const MeasuredFigures& run) { return run.model.pipeline_fps; }),
    time_of("load_time", "loading the model",
            [](const MeasuredFigures& run) { return number(run.model.model_load_time); }),
    RunMetric{.name = "detections",
              .help = "detections per frame, mean",
              .unit = MetricUnit::count,
              .value = detections,
              .least_share = 1e-9},
    RunMetric{.name = "file_size",
              .help = "size of the model's files",
              .unit = MetricUnit::bytes,
              .value = [](const MeasuredFigures& run) { return number(run.model.file_size); }},
};

ModelResult named(std::string name) {
  ModelResult result;
  result.name = std::move(name);
  result.status = ModelStatus::ok;
  return result;
}

std::optional<double> per_second(const std::optional<LatencySummary>& latency) {
  if (!latency || latency->mean_ns <= 0) return std::nullopt;
  return 1e9 / latency->mean_ns;
}

// One of several models in a process. Its memory is not known.
ModelResult in_company(std::string name, const std::optional<LatencySummary>& inference,
                       const std::optional<Nanoseconds>& load) {
  ModelResult result = named(std::move(name));
  result.inference = inference;
  result.fps = per_second(inference);
  result.model_load_time = load;
  return result;
}

// A process that had several models.
ModelResult all_in_one(std::string name, const auto& process) {
  ModelResult all = named(std::move(name));
  all.status = process.status;
  all.error = process.error;
  all.inference = process.frame;
  all.fps = process.fps;
  all.memory = process.memory;
  all.gpu_memory = process.gpu_memory;
  all.frames = process.frames;
  return all;
}

void add_pipeline(const PipelineResult& pipeline, std::vector<ModelResult>& results) {
  ModelResult all = all_in_one("(pipeline)", pipeline);
  all.memory.runtime = pipeline.runtime;
  all.memory.loaded = pipeline.loaded;
  if (!all.memory.run_peak) all.memory.run_peak = pipeline.peak;
  results.push_back(std::move(all));
  if (pipeline.status != ModelStatus::ok) return;  // told once
  for (const PipelineModel& model : pipeline.models)
    results.push_back(in_company(model.name + " (in pipeline)", model.inference, model.load_time));
}

void add_parallel(const ParallelResult& parallel, std::vector<ModelResult>& results) {
  ModelResult all = named("(parallel)");
  all.memory.run_peak = parallel.joint_peak;
  for (const ModelResult& model : parallel.together) {
    ModelResult one = model;
    one.name += " (in parallel)";
    one.memory_series.clear();
    if (one.status != ModelStatus::ok && all.status == ModelStatus::ok) {
      all.status = one.status;
      all.error = one.error;
    }
    results.push_back(std::move(one));
  }
  results.push_back(std::move(all));
}

void add_pool(const PoolResult& pool, std::vector<ModelResult>& results) {
  ModelResult all = all_in_one("(pool)", pool);
  all.model_load_time = pool.load_time;
  results.push_back(std::move(all));
  if (pool.status != ModelStatus::ok) return;
  for (const PooledModel& model : pool.models)
    results.push_back(
        in_company(model.name + " (in pool)", model.inference,
                   model.load ? std::optional(Nanoseconds{static_cast<std::int64_t>(model.load->mean_ns)})
                              : std::nullopt));
}

}  // namespace

std::span<const RunMetric> run_metrics() { return kMetrics; }

const RunMetric* find_run_metric(std::string_view name) {
  const auto found = std::ranges::find(kMetrics, name, &RunMetric::name);
  return found == kMetrics.end() ? nullptr : &*found;
}

std::vector<std::string> run_metric_names() {
  std::vector<std::string> names;
  for (const RunMetric& metric : kMetrics) names.emplace_back(metric.name);
  return names;
}

std::vector<ModelResult> combined_results(const BenchResult& run) {
  std::vector<ModelResult> results;
  if (run.pipeline) add_pipeline(*run.pipeline, results);
  if (run.parallel) add_parallel(*run.parallel, results);
  if (run.pool) add_pool(*run.pool, results);
  std::erase_if(results, [&](const ModelResult& result) {
    return std::ranges::find(run.models, result.name, &ModelResult::name) != run.models.end();
  });
  return results;
}

}  // namespace headroom::comparison
