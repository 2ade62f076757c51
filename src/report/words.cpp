#include "report/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "types/enum_names.h"

namespace headroom::report {
namespace {

struct MetricWords {
  std::string_view name;  // without the sensor after the dot
  std::string_view title;
  bool counts_events = false;  // since the sample before
};

constexpr MetricWords kMetrics[]{{"cpu_percent", "CPU, all cores"},
                                 {"gpu_percent", "GPU"},
                                 {"gpu_load_percent", "GPU load"},
                                 {"gpu_memory_used_bytes", "GPU memory used"},
                                 {"gpu_memory_used_percent", "GPU memory used, share"},
                                 {"gpu_memory_free_bytes", "GPU memory free"},
                                 {"gpu_memory_load_percent", "GPU memory, share of time in use"},
                                 {"gpu_encoder_percent", "GPU video encoders"},
                                 {"gpu_decoder_percent", "GPU video decoders"},
                                 {"ram_used_bytes", "RAM used"},
                                 {"ram_used_percent", "RAM used, share of the board"},
                                 {"ram_available_bytes", "RAM available"},
                                 {"ram_free_bytes", "RAM free"},
                                 {"ram_cached_bytes", "RAM cached"},
                                 {"ram_shared_bytes", "RAM shared"},
                                 {"nvmap_used_bytes", "NvMap (inside RAM used)"},
                                 {"swap_used_bytes", "Swap used"},
                                 {"ram_anonymous_bytes", "RAM of processes, anonymous"},
                                 {"slab_unreclaimable_bytes", "Kernel slab, unreclaimable"},
                                 {"largest_free_block_bytes", "Largest free block"},
                                 {"cma_free_bytes", "CMA free"},
                                 {"zram_used_bytes", "zram, memory used"},
                                 {"cgroup_current_bytes", "Control group"},
                                 {"followed_processes", "Followed processes"},
                                 {"followed_rss_bytes", "Followed: resident (sum of RSS)"},
                                 {"followed_rss_percent", "Followed: resident, share of the board"},
                                 {"followed_descriptors", "Followed: open descriptors"},
                                 {"followed_pss_bytes", "Followed: proportional share (PSS)"},
                                 {"followed_swapped_bytes", "Followed: swapped"},
                                 {"followed_gpu_bytes", "Followed: GPU memory"},
                                 {"allocation_stalls", "Allocation stalls (reclaim)", true},
                                 {"compaction_failures", "Failed memory compactions", true},
                                 {"major_faults", "Major page faults", true},
                                 {"open_files", "Open files of the machine"},
                                 {"emc_percent", "Memory controller"},
                                 {"engine_percent", "Engine"},
                                 {"fan_rpm", "Fan, rpm"},
                                 {"psi_some_percent", "Memory pressure, some tasks waiting"},
                                 {"psi_full_percent", "Memory pressure, all tasks waiting"},
                                 {"pages_swapped_in", "Pages swapped in", true},
                                 {"pages_swapped_out", "Pages swapped out", true},
                                 {"refaults", "Page refaults", true},
                                 {"oom_kills", "OOM kills", true},
                                 {"throttled", "Clock throttled, share of samples"},
                                 {"temperature_celsius", "Temperature"},
                                 {"power_watts", "Power"},
                                 {"clock_hz", "Clock"}};

std::string_view family_of(std::string_view name) { return name.substr(0, name.find('.')); }

const MetricWords* known_metric(std::string_view family) {
  const auto* const known = std::ranges::find(kMetrics, family, &MetricWords::name);
  return known == std::end(kMetrics) ? nullptr : known;
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

std::string grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string words_for(const MemoryShare& share, const std::string& peak_node) {
  // In the order of MemoryKind.
  std::string words(name_in(
      {"weights, as the runtime reports", "other memory left by loading: graph, kernels, prepacked weights",
       "tensors in the arena at its peak in the profiled runs", "rounding of tensors by the arena",
       "unused memory of the arena at that time",
       "growth of the arena after the profiled runs, in use or not", "allocated in runs outside the arena",
       "allocated after the profiled runs, inside or outside the arena",
       "allocated in runs; the runtime's profile shows no arena",
       "the runtime's own profiler, which only tracing turns on", ", outside the model", "unknown"},
      share.kind));
  if (share.kind == MemoryKind::module) return share.name + words;
  return share.kind == MemoryKind::tensors && !peak_node.empty() ? words + ", after " + peak_node : words;
}

std::string_view words_for(ModelStatus status) {
  if (status == ModelStatus::oom) return "out of memory";
  return status == ModelStatus::timeout ? "timed out" : name_of(status);
}

std::string_view words_for(LimitMechanism mechanism) {
  return name_in({"no limit; memory is only measured", "control group v2 (memory.max)",
                  "control group v1 (memory.limit_in_bytes)", "RLIMIT_DATA",
                  "a watchdog, which measures memory but stops nothing",
                  "the GPU ledger, which refuses requests over the limit"},
                 mechanism);
}

std::string_view activity_after(Phase phase) {
  return name_in({"while loading the runtime", "while loading the model", "while warming up", "while running",
                  "while unloading", "while ending"},
                 phase);
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
  return std::abs(value) < 9999.5 ? fmt::format("{:.4g}", value) : grouped(std::llround(value));
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
