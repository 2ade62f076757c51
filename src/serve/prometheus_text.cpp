#include "serve/prometheus_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/utf8.h"
#include "monitoring/memory_stack.h"

namespace headroom::serve {
namespace {

// Writes metric families: the format requires HELP, TYPE and all samples of a name together.
class Families {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    head_ = fmt::format("# HELP headroom_{} {}\n# TYPE headroom_{} {}\n", name, help, name, type);
  }
  void value(double value, std::string_view labels = {}) {
    text_ += head_;
    head_.clear();
    text_ += fmt::format("headroom_{}", name_);
    if (!labels.empty()) text_ += fmt::format("{{{}}}", labels);
    // Print integers as integers: 17 digits of a double are hard to read.
    if (value == std::floor(value) && std::abs(value) < 9e15)
      text_ += fmt::format(" {}\n", static_cast<std::int64_t>(value));
    else
      text_ += fmt::format(" {}\n", value);
  }

  void gauge(std::string_view name, std::string_view help, std::optional<double> value_now) {
    if (!value_now) return;
    begin(name, "gauge", help);
    value(*value_now);
  }
  void gauge(std::string_view name, std::string_view help, std::optional<Bytes> bytes) {
    if (bytes) gauge(name, help, std::optional(static_cast<double>(bytes->count)));
  }
  void ratio(std::string_view name, std::string_view help, std::optional<double> percent) {
    if (percent) gauge(name, help, std::optional(*percent / 100));
  }
  void counter(std::string_view name, std::string_view help, bool is_reported, double value_now) {
    if (!is_reported) return;
    begin(name, "counter", help);
    value(value_now);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_, head_, text_;
};

std::string label(std::string_view name, std::string_view value) {
  return fmt::format("{}=\"{}\"", name, escaped_label(value));
}

// Two sensors with the same name would be a duplicate series, for which Prometheus rejects the whole page.
void readings(Families& families, std::string_view name, std::string_view help, std::string_view label_name,
              const std::vector<Reading>& all, double factor = 1) {
  families.begin(name, "gauge", help);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto before = std::count_if(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i),
                                      [&](const Reading& other) { return other.name == all[i].name; });
    families.value(
        all[i].value * factor,
        label(label_name, before == 0 ? all[i].name : fmt::format("{}#{}", all[i].name, before + 1)));
  }
}

void add_memory(Families& families, const SystemSample& sample) {
  families.gauge("memory_total_bytes", "Memory of the machine (MemTotal).", sample.ram_total);
  families.gauge("memory_used_bytes", "MemTotal - MemFree - Buffers - Cached, as jtop counts.",
                 sample.ram_used);
  families.gauge("memory_free_bytes", "MemFree, from which NvMap allocates.", sample.ram_free);
  families.gauge("memory_available_bytes",
                 "MemAvailable: memory that programs can allocate without swapping.", sample.ram_available);
  families.gauge("memory_cached_bytes", "Page cache.", sample.ram_cached);
  families.gauge("memory_shared_bytes", "Shared memory (Shmem).", sample.ram_shared);
  families.gauge("memory_anonymous_bytes", "Anonymous memory of processes.", sample.ram_anonymous);
  families.gauge("memory_slab_unreclaimable_bytes", "Kernel memory that cannot be reclaimed.",
                 sample.slab_unreclaimable);
  families.gauge("memory_largest_free_block_bytes", "The largest contiguous block of free pages.",
                 sample.largest_free_block);
  families.gauge("memory_cma_total_bytes", "Size of the contiguous memory area (CMA).", sample.cma_total);
  families.gauge("memory_cma_free_bytes", "Free memory in the contiguous memory area.", sample.cma_free);
  families.gauge("memory_nvmap_used_bytes", "GPU memory on a Jetson; a part of headroom_memory_used_bytes.",
                 sample.nvmap_used);
  if (const auto stack = monitoring::memory_stack_of(sample)) {
    families.begin("memory_part_bytes", "gauge", "Parts that add up to headroom_memory_total_bytes.");
    families.value(static_cast<double>(stack->system.count), label("part", "system"));
    families.value(static_cast<double>(stack->processes.count), label("part", "processes"));
    families.value(static_cast<double>(stack->gpu.count), label("part", "gpu"));
    families.value(static_cast<double>(stack->cache.count), label("part", "cache"));
    families.value(static_cast<double>(stack->free.count), label("part", "free"));
  }
  families.gauge("swap_total_bytes", "Swap, on disk or in zram.", sample.swap_total);
  families.gauge("swap_used_bytes", "Swap in use.", sample.swap_used);
  families.gauge("zram_original_bytes", "Uncompressed size of the memory swapped into zram.",
                 sample.zram_original);
  families.gauge("zram_used_bytes", "Memory that zram uses.", sample.zram_used);
  if (!sample.cgroup) return;
  families.gauge("cgroup_memory_current_bytes", "Memory of Headroom's own control group.",
                 sample.cgroup->current);
  families.gauge("cgroup_memory_limit_bytes", "Memory limit of Headroom's own control group.",
                 sample.cgroup->limit);
  families.gauge("cgroup_memory_anonymous_bytes", "Anonymous memory in Headroom's own control group.",
                 sample.cgroup->anonymous);
}

void add_board(Families& families, const SystemSample& sample) {
  families.ratio("cpu_busy_ratio", "Busy share of all CPU cores together.", sample.cpu_percent);
  families.ratio("gpu_busy_ratio", "Busy share of the busiest GPU.", sample.gpu_percent);
  families.ratio("memory_controller_busy_ratio", "Share of the memory bandwidth at the current clock (EMC).",
                 sample.emc_percent);
  families.ratio("pressure_some_ratio", "Share of the last ten seconds in which a task waited for memory.",
                 sample.psi_some_avg10);
  families.ratio("pressure_full_ratio", "Share of the last ten seconds in which all tasks waited for memory.",
                 sample.psi_full_avg10);
  readings(families, "temperature_celsius", "Temperatures of the thermal zones.", "sensor",
           sample.temperatures_celsius);
  readings(families, "power_watts", "Power rails; some are sums of others.", "rail", sample.power_watts);
  readings(families, "clock_hertz", "Clock frequencies.", "domain", sample.clocks_hz);
  readings(families, "fan_ratio", "Fan speed as a share of full speed.", "fan", sample.fans_percent, 0.01);
  readings(families, "fan_rpm", "Fan speed in revolutions per minute.", "fan", sample.fans_rpm);
  if (!sample.engines.empty()) {
    families.begin("engine_on", "gauge", "Hardware blocks: 1 when powered.");
    for (const EngineReading& engine : sample.engines)
      if (engine.on) families.value(*engine.on ? 1 : 0, label("engine", engine.name));
  }
  if (sample.throttled)
    families.gauge("throttled", "1 while heat or power limits reduce the clocks.",
                   std::optional(*sample.throttled ? 1.0 : 0.0));
}

void add_gpus(Families& families, const SystemSample& sample) {
  const auto each = [&](std::string_view name, std::string_view help, auto&& value_of) {
    families.begin(name, "gauge", help);
    for (std::size_t i = 0; i < sample.gpus.size(); ++i) {
      const GpuSample& gpu = sample.gpus[i];
      const std::optional<double> value = value_of(gpu);
      if (value)
        families.value(*value,
                       label("gpu", std::to_string(gpu.index.value_or(static_cast<std::int64_t>(i)))) + "," +
                           label("uuid", gpu.uuid) + "," + label("name", gpu.name));
    }
  };
  const auto bytes = [](std::optional<Bytes> value) {
    return value ? std::optional(static_cast<double>(value->count)) : std::nullopt;
  };
  const auto ratio = [](std::optional<double> percent) {
    return percent ? std::optional(*percent / 100) : std::nullopt;
  };
  each("gpu_memory_total_bytes", "Total memory of a discrete GPU.",
       [&](const GpuSample& gpu) { return bytes(gpu.memory_total); });
  each("gpu_memory_used_bytes", "GPU memory in use by all processes.",
       [&](const GpuSample& gpu) { return bytes(gpu.memory_used); });
  each("gpu_memory_free_bytes", "Free.", [&](const GpuSample& gpu) { return bytes(gpu.memory_free); });
  each("gpu_utilization_ratio", "Share of time with a kernel running.",
       [&](const GpuSample& gpu) { return ratio(gpu.gpu_percent); });
  each("gpu_temperature_celsius", "Temperature of the GPU.",
       [](const GpuSample& gpu) { return gpu.temperature_celsius; });
  each("gpu_power_watts", "Power of the whole GPU board.",
       [](const GpuSample& gpu) { return gpu.power_watts; });
  each("gpu_sm_clock_hertz", "Clock of the multiprocessors.",
       [](const GpuSample& gpu) { return gpu.sm_clock_hz; });
  each("gpu_throttled", "1 while the GPU reduces its clocks.", [](const GpuSample& gpu) {
    return gpu.throttled ? std::optional(*gpu.throttled ? 1.0 : 0.0) : std::nullopt;
  });
}

void add_processes(Families& families, const SystemSample& sample) {
  const auto each = [&](std::string_view name, std::string_view help, auto&& value_of) {
    families.begin(name, "gauge", help);
    for (const ProcessSample& process : sample.processes)
      if (const std::optional<Bytes> value = value_of(process))
        families.value(static_cast<double>(value->count),
                       label("pid", std::to_string(process.pid)) + "," + label("name", process.name));
  };
  each("process_resident_bytes", "Resident memory of the largest processes; shared pages count in each.",
       [](const ProcessSample& process) { return process.rss; });
  each("process_swapped_bytes", "Memory of the process in swap.",
       [](const ProcessSample& process) { return process.swapped; });
  each("process_gpu_bytes", "GPU memory of the process, from NvMap or the driver.",
       [](const ProcessSample& process) { return process.gpu; });
}

void add_pools(Families& families, const SystemSample& sample) {
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help,
                        auto&& value_of) {
    families.begin(name, type, help);
    for (const PoolSample& pool : sample.pools)
      families.value(static_cast<double>(value_of(pool)), label("pool", pool.name) + "," +
                                                              label("pid", std::to_string(pool.pid)) + "," +
                                                              label("device", pool.device));
  };
  const auto gauge = [&](std::string_view name, std::string_view help, Bytes PoolSample::*bytes) {
    each(name, "gauge", help, [=](const PoolSample& pool) { return (pool.*bytes).count; });
  };
  const auto counter = [&](std::string_view name, std::string_view help, std::int64_t PoolSample::*count) {
    each(name, "counter", help, [=](const PoolSample& pool) { return pool.*count; });
  };
  gauge("pool_budget_bytes", "Memory budget of a model pool.", &PoolSample::budget);
  gauge("pool_used_bytes", "Budget in use, according to the pool.", &PoolSample::used);
  gauge("pool_loading_bytes", "Reserved for loads in progress.", &PoolSample::loading);
  gauge("pool_unaccounted_bytes",
        "Measured memory outside the pool's account: unreleased memory and the program's own.",
        &PoolSample::unaccounted);
  gauge("pool_stuck_bytes", "Memory of loads and frees that hang.", &PoolSample::stuck);
  counter("pool_requests_total", "Requests for a session.", &PoolSample::requests);
  counter("pool_hits_total", "Requests whose model was already loaded.", &PoolSample::hits);
  counter("pool_refusals_total", "Requests that got no session.", &PoolSample::refusals);
  counter("pool_loads_total", "Models loaded.", &PoolSample::loads);
  counter("pool_load_failures_total", "Loads that failed.", &PoolSample::load_failures);
  counter("pool_evictions_total", "Models evicted to load others.", &PoolSample::evictions);
  each("pool_load_seconds_total", "counter", "Time spent loading models.",
       [](const PoolSample& pool) { return pool.load_time.seconds(); });
  each("pool_wait_seconds_total", "counter", "Time that requests waited.",
       [](const PoolSample& pool) { return pool.wait_time.seconds(); });
}

void add_alerts(Families& families, const monitoring::MemoryRisk& risk, std::span<const AlertRule> rules,
                std::span<const AlertEvent> active) {
  using monitoring::RiskFigure;
  const auto gauge = [&](std::string_view name, std::string_view help, RiskFigure figure, double factor = 1) {
    const auto& value = risk[figure].value;
    if (value) families.gauge(name, help, std::optional(*value * factor));
  };
  gauge("memory_exhaustion_seconds",
        "Seconds until memory is exhausted at the current growth; absent without growth.",
        RiskFigure::memory_seconds_left);
  gauge("nvmap_exhaustion_seconds", "Seconds until the memory for NvMap is exhausted.",
        RiskFigure::nvmap_seconds_left);
  gauge("memory_growth_bytes_per_second", "Growth of the memory that runs out first.",
        RiskFigure::memory_growth_bytes_per_hour, 1.0 / 3600);
  gauge("thrash_pages_per_second", "Pages read back per second while tasks wait for memory.",
        RiskFigure::thrash_pages_per_second);
  gauge("fragmentation_factor",
        "How many times smaller the largest free block is than before with the same free memory.",
        RiskFigure::fragmentation_factor);
  families.begin("alert_active", "gauge", "1 while the alert is active.");
  for (const AlertRule& rule : rules) {
    const bool is_active = std::any_of(active.begin(), active.end(),
                                       [&](const AlertEvent& event) { return event.rule == rule.name; });
    families.value(is_active ? 1 : 0,
                   label("alert", rule.name) + "," + label("severity", name_of(rule.severity)));
  }
}

}  // namespace

std::string escaped_label(std::string_view text) {
  std::string escaped;
  for (const char c : with_valid_utf8(std::string(text))) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

void Counters::add(const SystemSample& sample) {
  ++samples;
  const auto take = [](std::int64_t& sum, const std::optional<std::int64_t>& more, bool& has) {
    if (!more) return;
    has = true;
    sum += std::max<std::int64_t>(*more, 0);
  };
  take(pages_swapped_in, sample.pages_swapped_in, has_pages);
  take(pages_swapped_out, sample.pages_swapped_out, has_pages);
  take(refaults, sample.refaults, has_refaults);
  take(oom_kills, sample.oom_kills, has_oom_kills);
  take(allocation_stalls, sample.allocation_stalls, has_stalls);
  take(compaction_failures, sample.compaction_failures, has_compaction);
  take(major_faults, sample.major_faults, has_faults);
  if (sample.psi_some_stalled) {
    has_psi = true;
    psi_some += *sample.psi_some_stalled;
    psi_full += sample.psi_full_stalled.value_or(Nanoseconds{});
  }
}

std::string prometheus_text(const SystemSample& sample, const Counters& counters,
                            const monitoring::MemoryRisk& risk, std::span<const AlertRule> rules,
                            std::span<const AlertEvent> active) {
  Families families;
  add_memory(families, sample);
  add_board(families, sample);
  add_gpus(families, sample);
  add_processes(families, sample);
  add_pools(families, sample);
  add_alerts(families, risk, rules, active);
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  families.counter("pages_swapped_in_total", "Pages swapped in since headroom serve started.",
                   counters.has_pages, number(counters.pages_swapped_in));
  families.counter("pages_swapped_out_total", "Pages swapped out since headroom serve started.",
                   counters.has_pages, number(counters.pages_swapped_out));
  families.counter("refaults_total", "Pages of the working set that were dropped and read again.",
                   counters.has_refaults, number(counters.refaults));
  families.counter("oom_kills_total", "Processes that the kernel killed because memory ran out.",
                   counters.has_oom_kills, number(counters.oom_kills));
  families.counter("allocation_stalls_total", "Memory allocations that had to reclaim memory first.",
                   counters.has_stalls, number(counters.allocation_stalls));
  families.counter("compaction_failures_total", "Failed memory compactions.", counters.has_compaction,
                   number(counters.compaction_failures));
  families.counter("major_faults_total", "Page faults that read from disk.", counters.has_faults,
                   number(counters.major_faults));
  families.counter("pressure_some_seconds_total", "Time in which a task waited for memory.", counters.has_psi,
                   counters.psi_some.seconds());
  families.counter("pressure_full_seconds_total", "Time in which all tasks waited for memory.",
                   counters.has_psi, counters.psi_full.seconds());
  families.counter("samples_total", "Samples taken.", true, number(counters.samples));
  return families.take();
}

}  // namespace headroom::serve
