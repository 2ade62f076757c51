#include "report/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace headroom::report {
namespace {

struct MetricWords {
  std::string_view name;  // without the sensor after the dot
  std::string_view title;
  bool counts_events = false;  // since the sample before
};

constexpr std::array kMetrics{MetricWords{"cpu_percent", "CPU, all cores"},
                              MetricWords{"gpu_percent", "GPU"},
                              MetricWords{"gpu_load_percent", "GPU load"},
                              MetricWords{"gpu_memory_used_bytes", "GPU memory used"},
                              MetricWords{"gpu_memory_free_bytes", "GPU memory free"},
                              MetricWords{"gpu_memory_load_percent", "GPU memory, share of time in use"},
                              MetricWords{"gpu_encoder_percent", "GPU video encoders"},
                              MetricWords{"gpu_decoder_percent", "GPU video decoders"},
                              MetricWords{"ram_used_bytes", "RAM used"},
                              MetricWords{"ram_available_bytes", "RAM available"},
                              MetricWords{"ram_free_bytes", "RAM free"},
                              MetricWords{"ram_cached_bytes", "RAM cached"},
                              MetricWords{"ram_shared_bytes", "RAM shared"},
                              MetricWords{"nvmap_used_bytes", "NvMap (inside RAM used)"},
                              MetricWords{"swap_used_bytes", "Swap used"},
                              MetricWords{"ram_anonymous_bytes", "RAM of processes, anonymous"},
                              MetricWords{"slab_unreclaimable_bytes", "Kernel slab, unreclaimable"},
                              MetricWords{"largest_free_block_bytes", "Largest free block"},
                              MetricWords{"cma_free_bytes", "CMA free"},
                              MetricWords{"zram_used_bytes", "zram, memory used"},
                              MetricWords{"cgroup_current_bytes", "Control group"},
                              MetricWords{"followed_processes", "Followed processes"},
                              MetricWords{"followed_rss_bytes", "Followed: resident (sum of RSS)"},
                              MetricWords{"followed_pss_bytes", "Followed: proportional share (PSS)"},
                              MetricWords{"followed_swapped_bytes", "Followed: swapped"},
                              MetricWords{"followed_gpu_bytes", "Followed: GPU memory"},
                              MetricWords{"allocation_stalls", "Allocation stalls (reclaim)", true},
                              MetricWords{"compaction_failures", "Failed memory compactions", true},
                              MetricWords{"major_faults", "Major page faults", true},
                              MetricWords{"emc_percent", "Memory controller"},
                              MetricWords{"engine_percent", "Engine"},
                              MetricWords{"fan_rpm", "Fan, rpm"},
                              MetricWords{"psi_some_percent", "Memory pressure, some tasks waiting"},
                              MetricWords{"psi_full_percent", "Memory pressure, all tasks waiting"},
                              MetricWords{"pages_swapped_in", "Pages swapped in", true},
                              MetricWords{"pages_swapped_out", "Pages swapped out", true},
                              MetricWords{"refaults", "Page refaults", true},
                              MetricWords{"oom_kills", "OOM kills", true},
                              MetricWords{"throttled", "Clock throttled, share of samples"},
                              MetricWords{"temperature_celsius", "Temperature"},
                              MetricWords{"power_watts", "Power"},
                              MetricWords{"clock_hz", "Clock"}};

std::string_view family_of(std::string_view name) { return name.substr(0, name.find('.')); }

const MetricWords* known_metric(std::string_view family) {
  const auto* const known = std::find_if(kMetrics.begin(), kMetrics.end(),
                                         [&](const MetricWords& metric) { return metric.name == family; });
  return known == kMetrics.end() ? nullptr : known;
}

}  // namespace

std::string words_for(const std::optional<Bytes>& bytes) {
  return bytes ? format_bytes(*bytes) : std::string(kAbsent);
}

std::string words_for(const std::optional<Nanoseconds>& time) {
  return time ? format_duration(*time) : std::string(kAbsent);
}

std::string words_for_rate(const std::optional<double>& per_second) {
  if (!per_second) return std::string(kAbsent);
  return fmt::format("{:.{}f}", *per_second, *per_second < 9.995 ? 2 : *per_second < 999.95 ? 1 : 0);
}

std::string words_for_share(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string words_for(const MemoryShare& share, const std::string& peak_node) {
  switch (share.kind) {
    case MemoryKind::weights:
      return "weights, as the runtime reports";
    case MemoryKind::graph:
      return "other memory left by loading: graph, kernels, prepacked weights";
    case MemoryKind::tensors:
      return "tensors in the arena at its peak in the profiled runs" +
             (peak_node.empty() ? "" : ", after " + peak_node);
    case MemoryKind::arena_rounding:
      return "rounding of tensors by the arena";
    case MemoryKind::arena_unused:
      return "unused memory of the arena at that time";
    case MemoryKind::arena_later:
      return "growth of the arena after the profiled runs, in use or not";
    case MemoryKind::workspace:
      return "allocated in runs outside the arena";
    case MemoryKind::run_later:
      return "allocated after the profiled runs, inside or outside the arena";
    case MemoryKind::run:
      return "allocated in runs; the runtime's profile shows no arena";
    case MemoryKind::tracing:
      return "the runtime's own profiler, which only tracing turns on";
    case MemoryKind::module:
      return share.name + ", outside the model";
    case MemoryKind::unnamed:
      return "unknown";
  }
  return "";
}

std::string_view words_for(ModelStatus status) {
  switch (status) {
    case ModelStatus::ok:
      return "ok";
    case ModelStatus::oom:
      return "out of memory";
    case ModelStatus::crashed:
      return "crashed";
    case ModelStatus::timeout:
      return "timed out";
    case ModelStatus::failed:
      return "failed";
    case ModelStatus::skipped:
      return "skipped";
  }
  return "failed";
}

std::string_view words_for(LimitMechanism mechanism) {
  switch (mechanism) {
    case LimitMechanism::none:
      return "no limit; memory is only measured";
    case LimitMechanism::cgroup_v2:
      return "control group v2 (memory.max)";
    case LimitMechanism::cgroup_v1:
      return "control group v1 (memory.limit_in_bytes)";
    case LimitMechanism::rlimit_data:
      return "RLIMIT_DATA";
    case LimitMechanism::watchdog:
      return "a watchdog, which measures memory but stops nothing";
    case LimitMechanism::device_ledger:
      return "the GPU ledger, which refuses requests over the limit";
  }
  return "nothing";
}

std::string_view activity_after(Phase phase) {
  switch (phase) {
    case Phase::start:
      return "while loading the runtime";
    case Phase::runtime_loaded:
      return "while loading the model";
    case Phase::model_loaded:
      return "while warming up";
    case Phase::warm:
      return "while running";
    case Phase::running:
      return "while unloading";
    case Phase::unloaded:
      return "while ending";
  }
  return "";
}

std::string title_of_metric(std::string_view name) {
  const std::string_view family = family_of(name);
  const MetricWords* known = known_metric(family);
  if (known == nullptr) return std::string(name);
  if (family.size() == name.size()) return std::string(known->title);
  return fmt::format("{} {}", known->title, name.substr(family.size() + 1));
}

std::string words_for_metric(std::string_view name, double value) {
  const std::string_view family = family_of(name);
  if (family.ends_with("_bytes")) return format_bytes({static_cast<std::int64_t>(value)});
  if (family.ends_with("_percent")) return fmt::format("{:.1f} %", value);
  if (family.ends_with("_celsius")) return fmt::format("{:.1f} °C", value);
  if (family.ends_with("_watts")) return fmt::format("{:.2f} W", value);
  if (family.ends_with("_hz")) {
    if (value >= 1e9) return fmt::format("{:.2f} GHz", value / 1e9);
    return fmt::format("{:.0f} MHz", value / 1e6);
  }
  return fmt::format("{:.4g}", value);
}

std::optional<std::int64_t> total_of(const MetricSummary& metric) {
  const MetricWords* known = known_metric(family_of(metric.name));
  if (known == nullptr || !known->counts_events) return std::nullopt;
  return std::llround(metric.mean * static_cast<double>(metric.n));
}

std::string words_for_average(double count) {
  return fmt::format("{:.{}f}", count, count == 0 || count >= 100 ? 0 : count >= 0.095 ? 1 : 2);
}

std::optional<Bytes> peak_of(const ModelResult& model) {
  const auto& [load, run] = std::pair(model.memory.load_peak, model.memory.run_peak);
  return load && run ? std::max(*load, *run) : load ? load : run;
}

bool exceeded_limit(const ModelResult& model) {
  return model.memory.within_limit == false || model.memory.violations > 0;
}

}  // namespace headroom::report
