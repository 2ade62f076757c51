#include "monitoring/sample_metrics.h"

#include <fmt/format.h>

#include <array>

namespace headroom::monitoring {
namespace {

class Walk {
 public:
  explicit Walk(const std::function<void(std::string_view, double)>& on_metric) : on_metric_(on_metric) {}
  void add(std::string_view name, double value) { on_metric_(name, value); }
  void add(std::string_view name, Bytes value) { add(name, static_cast<double>(value.count)); }
  void add(std::string_view name, Nanoseconds value) { add(name, static_cast<double>(value.count)); }
  void add(std::string_view name, std::int64_t value) { add(name, static_cast<double>(value)); }
  void add(std::string_view name, bool value) { add(name, value ? 1.0 : 0.0); }
  template <class T>
  void add(std::string_view name, const std::optional<T>& value) {
    if (value) add(name, *value);
  }
  void add(std::string_view prefix, const std::vector<Reading>& readings) {
    for (const Reading& reading : readings) add(joined(prefix, reading.name), reading.value);
  }
  template <class T>
  void add(std::string_view prefix, std::string_view label, const std::optional<T>& value) {
    if (value) add(joined(prefix, label), *value);
  }

 private:
  std::string_view joined(std::string_view prefix, std::string_view label) {
    const auto end = fmt::format_to_n(name_.data(), name_.size(), "{}.{}", prefix, label);
    return {name_.data(), std::min(end.size, name_.size())};
  }

  const std::function<void(std::string_view, double)>& on_metric_;
  std::array<char, 160> name_{};
};

void add_gpu(Walk& walk, const GpuSample& gpu, bool is_one_of_several) {
  // "gpu0", or "gpu" in a text without a number.
  std::array<char, 32> buffer{};
  const auto label = [&](std::string_view suffix) {
    const auto end = gpu.index ? fmt::format_to_n(buffer.data(), buffer.size(), "gpu{}{}", *gpu.index, suffix)
                               : fmt::format_to_n(buffer.data(), buffer.size(), "gpu{}", suffix);
    return std::string_view(buffer.data(), std::min(end.size, buffer.size()));
  };
  // A single GPU's load is the machine's gpu_percent.
  if (is_one_of_several) walk.add("gpu_load_percent", label(""), gpu.gpu_percent);
  walk.add("gpu_memory_used_bytes", label(""), gpu.memory_used);
  walk.add("gpu_memory_used_percent", label(""), percent_of(gpu.memory_used, gpu.memory_total));
  walk.add("gpu_memory_free_bytes", label(""), gpu.memory_free);
  walk.add("gpu_memory_load_percent", label(""), gpu.memory_percent);
  walk.add("gpu_encoder_percent", label(""), gpu.encoder_percent);
  walk.add("gpu_decoder_percent", label(""), gpu.decoder_percent);
  walk.add("temperature_celsius", label(""), gpu.temperature_celsius);
  walk.add("power_watts", label(""), gpu.power_watts);
  walk.add("clock_hz", label("-sm"), gpu.sm_clock_hz);
  walk.add("clock_hz", label("-memory"), gpu.memory_clock_hz);
}

}  // namespace

std::optional<double> percent_of(const std::optional<Bytes>& part, const std::optional<Bytes>& whole) {
  if (!part || !whole || whole->count <= 0) return std::nullopt;
  return 100 * static_cast<double>(part->count) / static_cast<double>(whole->count);
}

void for_each_metric(const SystemSample& sample,
                     const std::function<void(std::string_view name, double value)>& on_metric) {
  Walk walk(on_metric);
  walk.add("cpu_percent", sample.cpu_percent);
  walk.add("gpu_percent", sample.gpu_percent);
  walk.add("ram_used_bytes", sample.ram_used);
  walk.add("ram_used_percent", percent_of(sample.ram_used, sample.ram_total));
  walk.add("ram_available_bytes", sample.ram_available);
  walk.add("ram_free_bytes", sample.ram_free);
  walk.add("ram_cached_bytes", sample.ram_cached);
  walk.add("ram_shared_bytes", sample.ram_shared);
  walk.add("ram_anonymous_bytes", sample.ram_anonymous);
  walk.add("slab_unreclaimable_bytes", sample.slab_unreclaimable);
  walk.add("largest_free_block_bytes", sample.largest_free_block);
  walk.add("cma_free_bytes", sample.cma_free);
  walk.add("nvmap_used_bytes", sample.nvmap_used);
  walk.add("swap_used_bytes", sample.swap_used);
  walk.add("zram_used_bytes", sample.zram_used);
  if (sample.cgroup) walk.add("cgroup_current_bytes", sample.cgroup->current);
  walk.add("psi_some_percent", sample.psi_some_avg10);
  walk.add("psi_full_percent", sample.psi_full_avg10);
  walk.add("pages_swapped_in", sample.pages_swapped_in);
  walk.add("pages_swapped_out", sample.pages_swapped_out);
  walk.add("refaults", sample.refaults);
  walk.add("oom_kills", sample.oom_kills);
  walk.add("allocation_stalls", sample.allocation_stalls);
  walk.add("compaction_failures", sample.compaction_failures);
  walk.add("major_faults", sample.major_faults);
  walk.add("open_files", sample.open_files);
  walk.add("throttled", sample.throttled);
  walk.add("emc_percent", sample.emc_percent);
  walk.add("temperature_celsius", sample.temperatures_celsius);
  walk.add("power_watts", sample.power_watts);
  walk.add("fan_rpm", sample.fans_rpm);
  walk.add("clock_hz", sample.clocks_hz);
  for (const EngineReading& engine : sample.engines) walk.add("engine_percent", engine.name, engine.percent);
  for (const GpuSample& gpu : sample.gpus) add_gpu(walk, gpu, sample.gpus.size() > 1);
  for (const PoolSample& pool : sample.pools) {
    walk.add("pool_used_bytes", pool.name, std::optional(pool.used));
    walk.add("pool_budget_bytes", pool.name, std::optional(pool.budget));
  }
  for (const Reading& reading : sample.other) walk.add(reading.name, reading.value);
}

void SeriesAccumulator::add(const SystemSample& sample) {
  if (!start_) start_ = sample.time;
  const double time = (sample.time - *start_).seconds();
  next_ = 0;
  for_each_metric(sample, [this, time](std::string_view name, double value) {
    if (next_ >= series_.size() || series_[next_].summary.name != name) {
      next_ = static_cast<std::size_t>(
          std::ranges::find_if(series_, [&](const Series& one) { return one.summary.name == name; }) -
          series_.begin());
      if (next_ == series_.size()) {
        series_.emplace_back();
        series_.back().summary = {{std::string(name), 0, value, 0, value}, value, {}};
      }
    }
    Series& series = series_[next_++];
    SeriesSummary& summary = series.summary;
    ++summary.n;
    const auto n = static_cast<double>(summary.n);
    summary.min = std::min(summary.min, value);
    summary.max = std::max(summary.max, value);
    summary.last = value;
    const double from_time = time - series.mean_time;
    series.mean_time += from_time / n;
    summary.mean += (value - summary.mean) / n;
    series.time_squares += from_time * (time - series.mean_time);
    series.products += from_time * (value - summary.mean);
  });
}

std::vector<SeriesSummary> SeriesAccumulator::summaries() const {
  std::vector<SeriesSummary> summaries;
  for (const Series& series : series_) {
    summaries.push_back(series.summary);
    if (series.summary.n >= 3 && series.time_squares > 0)
      summaries.back().slope_per_second = series.products / series.time_squares;
  }
  return summaries;
}

void SeriesCurve::add(Nanoseconds time, double value) {
  if (!points_.empty() && points_.back().n < samples_a_point_) {
    Point& point = points_.back();
    ++point.n;
    point.end = time;
    point.min = std::min(point.min, value);
    point.max = std::max(point.max, value);
    point.mean += (value - point.mean) / static_cast<double>(point.n);
    return;
  }
  if (points_.size() == kMostPoints) {
    for (std::size_t i = 0; i < kMostPoints / 2; ++i) {
      const Point &a = points_[2 * i], &b = points_[2 * i + 1];
      const auto n = static_cast<double>(a.n + b.n);
      points_[i] = {a.begin,
                    b.end,
                    std::min(a.min, b.min),
                    (a.mean * static_cast<double>(a.n) + b.mean * static_cast<double>(b.n)) / n,
                    std::max(a.max, b.max),
                    a.n + b.n};
    }
    points_.resize(kMostPoints / 2);
    samples_a_point_ *= 2;
  }
  points_.push_back({time, time, value, value, value, 1});
}

std::optional<MemoryStack> memory_stack_of(const SystemSample& sample) {
  if (!sample.ram_total || !sample.ram_free || !sample.ram_buffers || !sample.ram_cached ||
      !sample.ram_anonymous)
    return std::nullopt;
  MemoryStack stack;
  stack.total = *sample.ram_total;
  Bytes left = stack.total;
  const auto take = [&left](Bytes wanted) {
    const Bytes part = std::clamp(wanted, Bytes{}, left);
    left = left - part;
    return part;
  };
  stack.free = take(*sample.ram_free);
  const Bytes shared = sample.ram_shared.value_or(Bytes{});  // counted in Cached, and cannot be dropped
  stack.processes = take(*sample.ram_anonymous + shared);
  stack.gpu = take(sample.nvmap_used.value_or(Bytes{}));
  stack.cache =
      take(*sample.ram_buffers + *sample.ram_cached - shared + sample.slab_reclaimable.value_or(Bytes{}));
  stack.system = left;
  return stack;
}

}  // namespace headroom::monitoring
