#include "serve/ros2/diagnostics.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/log.h"
#include "base/utf8.h"
#include "monitoring/alerts.h"

namespace headroom::ros2 {
namespace {
using monitoring::MemoryRisk;
using monitoring::RiskFigure;

enum class Component : std::uint8_t { memory, swap, gpu, temperature, power };
constexpr std::array<std::string_view, kComponents> kNames = {"memory", "swap", "gpu", "temperature",
                                                              "power"};

Component component_of(RiskFigure figure) {
  if (figure == RiskFigure::gpu_memory_used_percent) return Component::gpu;
  if (figure == RiskFigure::swap_used_bytes) return Component::swap;
  if (figure == RiskFigure::temperature_celsius) return Component::temperature;
  if (figure == RiskFigure::throttled) return Component::power;
  return Component::memory;
}

DiagnosticLevel level_of(AlertSeverity severity) {
  return severity == AlertSeverity::critical  ? DiagnosticLevel::error
         : severity == AlertSeverity::warning ? DiagnosticLevel::warn
                                              : DiagnosticLevel::ok;
}

// Cleans texts of sensors and GPUs. A NUL would end a DDS string too early.
std::string clean(std::string text) {
  std::replace(text.begin(), text.end(), '\0', ' ');
  return with_valid_utf8(std::move(text));
}

// The figures of a status. Unknown figures have no key.
class Values {
 public:
  void put(std::string_view key, std::optional<double> value) {
    if (!value || !std::isfinite(*value)) return;
    const bool is_whole = *value == std::floor(*value) && std::abs(*value) < 9e15;
    all_.push_back({std::string(key), is_whole ? fmt::format("{}", static_cast<std::int64_t>(*value))
                                               : fmt::format("{:.2f}", *value)});
  }
  void put(std::string_view key, std::optional<Bytes> bytes) {
    if (bytes) all_.push_back({std::string(key), std::to_string(bytes->count)});
  }
  void put(std::string_view key, const std::string& text) {
    if (!text.empty()) all_.push_back({std::string(key), clean(text)});
  }
  // Keys such as "temperature_celsius.cpu-thermal", like the CSV columns.
  void put(std::string_view key, const std::vector<Reading>& readings) {
    for (const Reading& reading : readings)
      put(fmt::format("{}.{}", key, clean(reading.name)), std::optional(reading.value));
  }
  bool empty() const { return all_.empty(); }
  std::vector<KeyValue> take() { return std::move(all_); }

 private:
  std::vector<KeyValue> all_;
};

// The figures of a component, and its message if there is no alert.
struct Report {
  Values values;
  std::string message;
};

Report memory_of(const SystemSample& sample, const MemoryRisk& risk) {
  Report report;
  report.values.put("ram_total_bytes", sample.ram_total);
  report.values.put("ram_used_bytes", sample.ram_used);
  report.values.put("ram_used_percent", risk[RiskFigure::ram_used_percent].value);
  report.values.put("ram_available_bytes", sample.ram_available);
  report.values.put("ram_free_bytes", sample.ram_free);
  report.values.put("cma_free_bytes", sample.cma_free);
  report.values.put("largest_free_block_bytes", sample.largest_free_block);
  if (report.values.empty()) return report;
  for (const RiskFigure figure :
       {RiskFigure::psi_full_percent, RiskFigure::memory_growth_bytes_per_hour,
        RiskFigure::memory_seconds_left, RiskFigure::nvmap_seconds_left, RiskFigure::thrash_pages_per_second,
        RiskFigure::fragmentation_factor, RiskFigure::oom_kills})
    report.values.put(monitoring::name_of(figure), risk[figure].value);
  if (sample.ram_used && sample.ram_total)
    report.message =
        fmt::format("{} of {} is used", format_bytes(*sample.ram_used), format_bytes(*sample.ram_total));
  return report;
}

Report swap_of(const SystemSample& sample) {
  Report report;
  if (!sample.swap_total || sample.swap_total->count == 0) return report;
  report.values.put("swap_total_bytes", sample.swap_total);
  report.values.put("swap_used_bytes", sample.swap_used);
  report.values.put("zram_original_bytes", sample.zram_original);
  report.values.put("zram_used_bytes", sample.zram_used);
  if (sample.swap_used)
    report.message =
        fmt::format("{} of {} is used", format_bytes(*sample.swap_used), format_bytes(*sample.swap_total));
  return report;
}

// The driver's index of the GPU.
std::int64_t number_of(const GpuSample& gpu, std::size_t place) {
  return gpu.index.value_or(static_cast<std::int64_t>(place));
}

Report gpu_of(const SystemSample& sample, const MemoryRisk& risk) {
  Report report;
  report.values.put("gpu_percent", sample.gpu_percent);
  report.values.put("nvmap_used_bytes", sample.nvmap_used);
  for (std::size_t i = 0; i < sample.gpus.size(); ++i) {
    const GpuSample& gpu = sample.gpus[i];
    const std::string key = fmt::format("gpu.{}", number_of(gpu, i));
    report.values.put(key + ".name", gpu.name);
    report.values.put(key + ".memory_total_bytes", gpu.memory_total);
    report.values.put(key + ".memory_used_bytes", gpu.memory_used);
    report.values.put(key + ".gpu_percent", gpu.gpu_percent);
    report.values.put(key + ".temperature_celsius", gpu.temperature_celsius);
    report.values.put(key + ".power_watts", gpu.power_watts);
    if (!gpu.memory_used || !gpu.memory_total) continue;
    report.message += fmt::format("{}{} of {} is used", report.message.empty() ? "" : ", ",
                                  format_bytes(*gpu.memory_used), format_bytes(*gpu.memory_total));
  }
  // Return before the next figure: on a machine without a GPU it is the share of host memory.
  if (report.values.empty()) return report;
  report.values.put("gpu_memory_used_percent", risk[RiskFigure::gpu_memory_used_percent].value);
  if (report.message.empty() && sample.nvmap_used)
    report.message = fmt::format("the GPU uses {} of the machine's memory", format_bytes(*sample.nvmap_used));
  return report;
}

Report temperature_of(const SystemSample& sample, const MemoryRisk& risk) {
  Report report;
  report.values.put("temperature_celsius", sample.temperatures_celsius);
  if (report.values.empty()) return report;
  const monitoring::RiskValue& hottest = risk[RiskFigure::temperature_celsius];
  if (hottest.value)
    report.message = fmt::format("{} is at {:.1f} °C", clean(hottest.detail), *hottest.value);
  return report;
}

Report power_of(const SystemSample& sample, const MemoryRisk& risk) {
  Report report;
  report.values.put("power_mode", sample.power_mode);
  report.values.put("power_watts", sample.power_watts);
  report.values.put("throttled", risk[RiskFigure::throttled].value);
  // Rails are parts of each other. The largest one is the board's input, or close to it.
  const auto largest = std::max_element(sample.power_watts.begin(), sample.power_watts.end(),
                                        [](const Reading& a, const Reading& b) { return a.value < b.value; });
  if (largest != sample.power_watts.end())
    report.message = fmt::format("{} draws {:.1f} W", clean(largest->name), largest->value);
  return report;
}

// The alerts of a component, the most severe first.
std::vector<AlertEvent> alerts_of(Component component, std::span<const AlertEvent> active) {
  std::vector<AlertEvent> mine;
  for (const AlertEvent& alert : active) {
    const auto figure = monitoring::risk_figure_by_name(alert.figure);
    if (figure && component_of(*figure) == component) mine.push_back(alert);
  }
  std::stable_sort(mine.begin(), mine.end(),
                   [](const AlertEvent& a, const AlertEvent& b) { return a.severity > b.severity; });
  return mine;
}

// Replaces the message with the alerts: "total_memory: 91.2 % of memory is used (limit 85.0 %); …".
void put_alerts(DiagnosticStatus& status, const std::vector<AlertEvent>& alerts) {
  if (alerts.empty()) return;
  std::string names, sentences;
  for (const AlertEvent& alert : alerts) {
    status.level = std::max(status.level, level_of(alert.severity));
    names += (names.empty() ? "" : ", ") + alert.rule;
    sentences += (sentences.empty() ? "" : "; ") + monitoring::sentence_for(alert);
  }
  status.message = clean(std::move(sentences));
  status.values.push_back({"alerts", clean(std::move(names))});
}

// A GPU that fell off the bus is more severe than any limit.
void put_lost_gpus(DiagnosticStatus& status, const SystemSample& sample) {
  for (std::size_t i = 0; i < sample.gpus.size(); ++i) {
    if (!sample.gpus[i].lost) continue;
    status.level = DiagnosticLevel::error;
    status.message =
        fmt::format("GPU {} is lost: it fell off the bus or needs a reset{}{}", number_of(sample.gpus[i], i),
                    status.message.empty() ? "" : "; ", status.message);
  }
}

std::string name_of(std::size_t component) { return fmt::format("headroom: {}", kNames[component]); }

// One message per second, as usual on /diagnostics: diagnostic_aggregator treats a status as stale after five
// seconds.
constexpr Nanoseconds kPeriod{1'000'000'000};

}  // namespace

Diagnostics::Diagnostics(std::string hardware_id) : hardware_id_(clean(std::move(hardware_id))) {}

DiagnosticStatus Diagnostics::stale(std::size_t component, std::string message) const {
  return {DiagnosticLevel::stale, name_of(component), std::move(message), hardware_id_, {}};
}

DiagnosticArray Diagnostics::of(const SystemSample& sample, const MemoryRisk& risk,
                                std::span<const AlertEvent> active) {
  DiagnosticArray array;
  array.stamp = sample.unix_time.value_or(Nanoseconds{});
  std::array<Report, kComponents> reports{memory_of(sample, risk), swap_of(sample), gpu_of(sample, risk),
                                          temperature_of(sample, risk), power_of(sample, risk)};
  for (std::size_t i = 0; i < kComponents; ++i) {
    const auto component = static_cast<Component>(i);
    const std::vector<AlertEvent> alerts = alerts_of(component, active);
    Report& report = reports[i];
    const bool lost =
        component == Component::gpu &&
        std::any_of(sample.gpus.begin(), sample.gpus.end(), [](const GpuSample& gpu) { return gpu.lost; });
    if (report.values.empty() && alerts.empty() && !lost) {
      if (was_reported_[i]) array.status.push_back(stale(i, "no longer reported"));
      continue;
    }
    was_reported_[i] = true;
    DiagnosticStatus status{DiagnosticLevel::ok, name_of(i), std::move(report.message), hardware_id_,
                            report.values.take()};
    put_alerts(status, alerts);
    if (lost) put_lost_gpus(status, sample);
    if (status.message.empty()) status.message = "OK";
    array.status.push_back(std::move(status));
  }
  return array;
}

DiagnosticArray Diagnostics::ended(Nanoseconds stamp) const {
  DiagnosticArray array{stamp, {}};
  for (std::size_t i = 0; i < kComponents; ++i)
    if (was_reported_[i]) array.status.push_back(stale(i, "headroom has ended"));
  return array;
}

void DiagnosticsFeed::add(const SystemSample& sample, const monitoring::MemoryRisk& risk,
                          std::span<const AlertEvent> active, bool has_changed) {
  // Accept a sample half an interval early: it is the nearest one.
  const bool is_due = !due_ || sample.time + Nanoseconds{interval_.count / 2} >= *due_;
  if (!is_due && !has_changed) return;
  if (is_due) {
    due_ = due_.value_or(sample.time) + kPeriod;
    if (*due_ < sample.time) due_ = sample.time + kPeriod;  // samples were late, or the interval is longer
  }
  publish(diagnostics_.of(sample, risk, active));
}

void DiagnosticsFeed::end() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  publish(diagnostics_.ended({std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec}));
}

void DiagnosticsFeed::publish(const DiagnosticArray& array) {
  if (array.status.empty()) return;
  const Status status = publisher_->publish(array);
  if (status || has_warned_) return;
  has_warned_ = true;
  log::warning("{}", status.error().sentence());
}

}  // namespace headroom::ros2
