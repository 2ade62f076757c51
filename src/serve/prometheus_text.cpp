#include "serve/prometheus_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/utf8.h"
#include "monitoring/sample_metrics.h"

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
  void counter(std::string_view name, std::string_view help, double value_now) {
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

std::optional<double> number(std::optional<Bytes> bytes) {
  return bytes ? std::optional(static_cast<double>(bytes->count)) : std::nullopt;
}
std::optional<double> ratio(std::optional<double> percent) {
  return percent ? std::optional(*percent / 100) : std::nullopt;
}
std::optional<double> flag(std::optional<bool> is_set) {
  return is_set ? std::optional(*is_set ? 1.0 : 0.0) : std::nullopt;
}

// A family with one value for each sample, GPU, process or pool.
template <class Holder, class Figure>
struct Row {
  std::string_view name, help;
  Figure Holder::*figure;
};

constexpr Row<SystemSample, std::optional<Bytes>> kMemory[]{
    {"memory_total_bytes", "Memory of the machine (MemTotal).", &SystemSample::ram_total},
    {"memory_used_bytes", "MemTotal - MemFree - Buffers - Cached, as jtop counts.", &SystemSample::ram_used},
    {"memory_free_bytes", "MemFree, from which NvMap allocates.", &SystemSample::ram_free},
    {"memory_available_bytes", "MemAvailable: memory that programs can allocate without swapping.",
     &SystemSample::ram_available},
    {"memory_cached_bytes", "Page cache.", &SystemSample::ram_cached},
    {"memory_shared_bytes", "Shared memory (Shmem).", &SystemSample::ram_shared},
    {"memory_anonymous_bytes", "Anonymous memory of processes.", &SystemSample::ram_anonymous},
    {"memory_slab_unreclaimable_bytes", "Kernel memory that cannot be reclaimed.",
     &SystemSample::slab_unreclaimable},
    {"memory_largest_free_block_bytes", "The largest contiguous block of free pages.",
     &SystemSample::largest_free_block},
    {"memory_cma_total_bytes", "Size of the contiguous memory area (CMA).", &SystemSample::cma_total},
    {"memory_cma_free_bytes", "Free memory in the contiguous memory area.", &SystemSample::cma_free},
    {"memory_nvmap_used_bytes", "GPU memory on a Jetson; a part of headroom_memory_used_bytes.",
     &SystemSample::nvmap_used}};
constexpr Row<SystemSample, std::optional<Bytes>> kSwap[]{
    {"swap_total_bytes", "Swap, on disk or in zram.", &SystemSample::swap_total},
    {"swap_used_bytes", "Swap in use.", &SystemSample::swap_used},
    {"zram_original_bytes", "Uncompressed size of the memory swapped into zram.",
     &SystemSample::zram_original},
    {"zram_used_bytes", "Memory that zram uses.", &SystemSample::zram_used}};

void add_memory(Families& families, const SystemSample& sample) {
  for (const auto& row : kMemory) families.gauge(row.name, row.help, number(sample.*row.figure));
  if (const auto stack = monitoring::memory_stack_of(sample)) {
    families.begin("memory_part_bytes", "gauge", "Parts that add up to headroom_memory_total_bytes.");
    for (const auto& [part, bytes] : {std::pair{"system", stack->system},
                                      {"processes", stack->processes},
                                      {"gpu", stack->gpu},
                                      {"cache", stack->cache},
                                      {"free", stack->free}})
      families.value(static_cast<double>(bytes.count), label("part", part));
  }
  for (const auto& row : kSwap) families.gauge(row.name, row.help, number(sample.*row.figure));
  if (!sample.cgroup) return;
  families.gauge("cgroup_memory_current_bytes", "Memory of Headroom's own control group.",
                 number(sample.cgroup->current));
  families.gauge("cgroup_memory_limit_bytes", "Memory limit of Headroom's own control group.",
                 number(sample.cgroup->limit));
  families.gauge("cgroup_memory_anonymous_bytes", "Anonymous memory in Headroom's own control group.",
                 number(sample.cgroup->anonymous));
}

constexpr Row<SystemSample, std::optional<double>> kRatios[]{
    {"cpu_busy_ratio", "Busy share of all CPU cores together.", &SystemSample::cpu_percent},
    {"gpu_busy_ratio", "Busy share of the busiest GPU.", &SystemSample::gpu_percent},
    {"memory_controller_busy_ratio", "Share of the memory bandwidth at the current clock (EMC).",
     &SystemSample::emc_percent},
    {"pressure_some_ratio", "Share of the last ten seconds in which a task waited for memory.",
     &SystemSample::psi_some_avg10},
    {"pressure_full_ratio", "Share of the last ten seconds in which all tasks waited for memory.",
     &SystemSample::psi_full_avg10}};

void add_board(Families& families, const SystemSample& sample) {
  for (const auto& row : kRatios) families.gauge(row.name, row.help, ratio(sample.*row.figure));
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
  families.gauge("throttled", "1 while heat or power limits reduce the clocks.", flag(sample.throttled));
}

void add_gpus(Families& families, const SystemSample& sample) {
  const auto each = [&](std::string_view name, std::string_view help, auto figure, auto convert) {
    families.begin(name, "gauge", help);
    for (std::size_t i = 0; i < sample.gpus.size(); ++i) {
      const GpuSample& gpu = sample.gpus[i];
      const std::optional<double> value = convert(gpu.*figure);
      if (value)
        families.value(*value,
                       label("gpu", std::to_string(gpu.index.value_or(static_cast<std::int64_t>(i)))) + "," +
                           label("uuid", gpu.uuid) + "," + label("name", gpu.name));
    }
  };
  const auto as_it_is = [](std::optional<double> value) { return value; };
  each("gpu_memory_total_bytes", "Total memory of a discrete GPU.", &GpuSample::memory_total, number);
  each("gpu_memory_used_bytes", "GPU memory in use by all processes.", &GpuSample::memory_used, number);
  each("gpu_memory_free_bytes", "Free.", &GpuSample::memory_free, number);
  each("gpu_utilization_ratio", "Share of time with a kernel running.", &GpuSample::gpu_percent, ratio);
  each("gpu_temperature_celsius", "Temperature of the GPU.", &GpuSample::temperature_celsius, as_it_is);
  each("gpu_power_watts", "Power of the whole GPU board.", &GpuSample::power_watts, as_it_is);
  each("gpu_sm_clock_hertz", "Clock of the multiprocessors.", &GpuSample::sm_clock_hz, as_it_is);
  each("gpu_throttled", "1 while the GPU reduces its clocks.", &GpuSample::throttled, flag);
}

constexpr Row<ProcessSample, std::optional<Bytes>> kProcesses[]{
    {"process_resident_bytes", "Resident memory of the largest processes; shared pages count in each.",
     &ProcessSample::rss},
    {"process_swapped_bytes", "Memory of the process in swap.", &ProcessSample::swapped},
    {"process_gpu_bytes", "GPU memory of the process, from NvMap or the driver.", &ProcessSample::gpu}};

void add_processes(Families& families, const SystemSample& sample) {
  for (const auto& row : kProcesses) {
    families.begin(row.name, "gauge", row.help);
    for (const ProcessSample& process : sample.processes)
      if (const auto value = number(process.*row.figure))
        families.value(*value, label("pid", std::to_string(process.pid)) + "," + label("name", process.name));
  }
}

constexpr Row<PoolSample, Bytes> kPoolBytes[]{
    {"pool_budget_bytes", "Memory budget of a model pool.", &PoolSample::budget},
    {"pool_used_bytes", "Budget in use, according to the pool.", &PoolSample::used},
    {"pool_loading_bytes", "Reserved for loads in progress.", &PoolSample::loading},
    {"pool_unaccounted_bytes",
     "Measured memory outside the pool's account: unreleased memory and the program's own.",
     &PoolSample::unaccounted},
    {"pool_stuck_bytes", "Memory of loads and frees that hang.", &PoolSample::stuck}};
constexpr Row<PoolSample, std::int64_t> kPoolCounts[]{
    {"pool_requests_total", "Requests for a session.", &PoolSample::requests},
    {"pool_hits_total", "Requests whose model was already loaded.", &PoolSample::hits},
    {"pool_refusals_total", "Requests that got no session.", &PoolSample::refusals},
    {"pool_loads_total", "Models loaded.", &PoolSample::loads},
    {"pool_load_failures_total", "Loads that failed.", &PoolSample::load_failures},
    {"pool_evictions_total", "Models evicted to load others.", &PoolSample::evictions}};
constexpr Row<PoolSample, Nanoseconds> kPoolTimes[]{
    {"pool_load_seconds_total", "Time spent loading models.", &PoolSample::load_time},
    {"pool_wait_seconds_total", "Time that requests waited.", &PoolSample::wait_time}};

void add_pools(Families& families, const SystemSample& sample) {
  const auto each = [&](const auto& row, std::string_view type, auto number_of) {
    families.begin(row.name, type, row.help);
    for (const PoolSample& pool : sample.pools)
      families.value(number_of(pool.*row.figure), label("pool", pool.name) + "," +
                                                      label("pid", std::to_string(pool.pid)) + "," +
                                                      label("device", pool.device));
  };
  for (const auto& row : kPoolBytes)
    each(row, "gauge", [](Bytes bytes) { return static_cast<double>(bytes.count); });
  for (const auto& row : kPoolCounts)
    each(row, "counter", [](std::int64_t count) { return static_cast<double>(count); });
  for (const auto& row : kPoolTimes) each(row, "counter", [](Nanoseconds time) { return time.seconds(); });
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

constexpr Row<SystemSample, std::optional<std::int64_t>> kCounters[]{
    {"pages_swapped_in_total", "Pages swapped in since headroom serve started.",
     &SystemSample::pages_swapped_in},
    {"pages_swapped_out_total", "Pages swapped out since headroom serve started.",
     &SystemSample::pages_swapped_out},
    {"refaults_total", "Pages of the working set that were dropped and read again.", &SystemSample::refaults},
    {"oom_kills_total", "Processes that the kernel killed because memory ran out.", &SystemSample::oom_kills},
    {"allocation_stalls_total", "Memory allocations that had to reclaim memory first.",
     &SystemSample::allocation_stalls},
    {"compaction_failures_total", "Failed memory compactions.", &SystemSample::compaction_failures},
    {"major_faults_total", "Page faults that read from disk.", &SystemSample::major_faults}};
static_assert(std::size(kCounters) == Counters::kSums);

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
  for (std::size_t i = 0; i < kSums; ++i)
    if (const auto more = sample.*kCounters[i].figure)
      sums[i] = sums[i].value_or(0) + std::max<std::int64_t>(*more, 0);
  if (!sample.psi_some_stalled) return;
  psi_some = psi_some.value_or(Nanoseconds{}) + *sample.psi_some_stalled;
  psi_full += sample.psi_full_stalled.value_or(Nanoseconds{});
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
  for (std::size_t i = 0; i < Counters::kSums; ++i)
    if (counters.sums[i])
      families.counter(kCounters[i].name, kCounters[i].help, static_cast<double>(*counters.sums[i]));
  if (counters.psi_some) {
    families.counter("pressure_some_seconds_total", "Time in which a task waited for memory.",
                     counters.psi_some->seconds());
    families.counter("pressure_full_seconds_total", "Time in which all tasks waited for memory.",
                     counters.psi_full.seconds());
  }
  families.counter("samples_total", "Samples taken.", static_cast<double>(counters.samples));
  return families.take();
}

}  // namespace headroom::serve
