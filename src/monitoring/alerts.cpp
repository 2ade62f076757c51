#include "monitoring/alerts.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"

namespace headroom::monitoring {
namespace {

constexpr Nanoseconds seconds(std::int64_t count) { return {count * 1'000'000'000}; }

AlertRule rule(std::string name, RiskFigure figure, bool above, double threshold, double clear,
               Nanoseconds hold, Nanoseconds clear_hold, AlertSeverity severity) {
  return {std::move(name), std::string(name_of(figure)), above, threshold, clear, hold, clear_hold, severity};
}

bool is_beyond(const AlertRule& rule, double value) {
  return rule.fires_above ? value > rule.threshold : value < rule.threshold;
}

bool is_back(const AlertRule& rule, std::optional<double> value) {
  if (!value) return true;
  return rule.fires_above ? *value <= rule.clear : *value >= rule.clear;
}

std::string duration_words(double seconds_left) {
  if (seconds_left < 120) return fmt::format("{:.0f} s", seconds_left);
  if (seconds_left < 7200) return fmt::format("{:.0f} min", seconds_left / 60);
  return fmt::format("{:.1f} h", seconds_left / 3600);
}

std::string bytes_words(double bytes) { return format_bytes(Bytes{std::llround(bytes)}); }

std::string value_words(RiskFigure figure, double value) {
  switch (figure) {
    case RiskFigure::ram_used_percent:
    case RiskFigure::gpu_memory_used_percent:
    case RiskFigure::psi_full_percent:
      return fmt::format("{:.1f} %", value);
    case RiskFigure::ram_available_bytes:
    case RiskFigure::swap_used_bytes:
      return bytes_words(value);
    case RiskFigure::temperature_celsius:
      return fmt::format("{:.1f} °C", value);
    case RiskFigure::memory_growth_bytes_per_hour:
      return bytes_words(value) + " per hour";
    case RiskFigure::memory_seconds_left:
    case RiskFigure::nvmap_seconds_left:
      return duration_words(value);
    case RiskFigure::thrash_pages_per_second:
      return fmt::format("{:.0f} pages per second", value);
    case RiskFigure::fragmentation_factor:
      return fmt::format("{:.0f} times smaller", value);
    case RiskFigure::oom_kills:
    case RiskFigure::throttled:
      break;
  }
  return fmt::format("{:.0f} process{}", value, value == 1 ? "" : "es");
}

std::string words_for(RiskFigure figure, double value, const std::string& detail) {
  const std::string of = detail.empty() ? "memory" : detail, amount = value_words(figure, value);
  switch (figure) {
    case RiskFigure::ram_used_percent:
    case RiskFigure::gpu_memory_used_percent:
      return fmt::format("{} of {} is used", amount, of);
    case RiskFigure::ram_available_bytes:
      return fmt::format("{} of memory is available", amount);
    case RiskFigure::swap_used_bytes:
      return fmt::format("{} of swap is in use", amount);
    case RiskFigure::temperature_celsius:
      return fmt::format("{} is at {}", detail.empty() ? "a sensor" : detail, amount);
    case RiskFigure::memory_growth_bytes_per_hour:
      return fmt::format("{} grows by {}", of, amount);
    case RiskFigure::memory_seconds_left:
    case RiskFigure::nvmap_seconds_left:
      return fmt::format("{} will be exhausted in {} at the current growth", of, amount);
    case RiskFigure::thrash_pages_per_second:
      return fmt::format("{} are read back from disk or swap while tasks wait for memory", amount);
    case RiskFigure::fragmentation_factor:
      return fmt::format("the largest free block is {} than before with the same free memory", amount);
    case RiskFigure::psi_full_percent:
      return fmt::format("all tasks wait for memory {} of the time", amount);
    case RiskFigure::oom_kills:
      return fmt::format("the kernel killed {} because memory ran out", amount);
    case RiskFigure::throttled:
      return "heat or power limits reduce the clocks";
  }
  return "";
}

}  // namespace

const std::vector<AlertRule>& default_alert_rules() {
  using enum AlertSeverity;
  static const std::vector<AlertRule> rules = {
      // The guide's: GPU or unified memory over 80 %, all of it over 85 %, less than 2 GB free, swap in use,
      // over 80 degrees.
      rule("gpu_memory", RiskFigure::gpu_memory_used_percent, true, 80, 75, seconds(5), seconds(10), warning),
      rule("total_memory", RiskFigure::ram_used_percent, true, 85, 80, seconds(5), seconds(10), critical),
      rule("little_available", RiskFigure::ram_available_bytes, false, 2e9, 2.25e9, seconds(5), seconds(10),
           warning),
      // Some pages always lie there after the machine has started.
      rule("swap_in_use", RiskFigure::swap_used_bytes, true, 64 << 20, 32 << 20, seconds(5), seconds(10),
           warning),
      rule("temperature", RiskFigure::temperature_celsius, true, 80, 75, seconds(3), seconds(10), warning),
      rule("memory_grows", RiskFigure::memory_growth_bytes_per_hour, true, 256 << 20, 64 << 20, seconds(60),
           seconds(60), warning),
      rule("memory_runs_out", RiskFigure::memory_seconds_left, false, 300, 450, seconds(0), seconds(15),
           critical),
      rule("nvmap_runs_out", RiskFigure::nvmap_seconds_left, false, 300, 450, seconds(0), seconds(15),
           warning),
      rule("thrashing", RiskFigure::thrash_pages_per_second, true, 2500, 500, seconds(3), seconds(10),
           critical),
      rule("fragmentation", RiskFigure::fragmentation_factor, true, 3.5, 2, seconds(30), seconds(30),
           warning),
      rule("oom_kill", RiskFigure::oom_kills, true, 0, 0, seconds(0), seconds(10), critical),
      rule("throttled", RiskFigure::throttled, true, 0.5, 0.5, seconds(3), seconds(10), info),
  };
  return rules;
}

Alerts::Alerts(std::vector<AlertRule> rules) {
  for (AlertRule& each : rules) {
    const auto figure = risk_figure_by_name(each.figure);
    states_.push_back({std::move(each), figure, {}, {}, false, {}});
  }
}

std::span<const AlertEvent> Alerts::update(Nanoseconds time, const MemoryRisk& risk) {
  events_.clear();
  for (State& state : states_) {
    if (!state.figure) continue;
    const RiskValue& now = risk[*state.figure];
    const bool beyond = now.value && is_beyond(state.rule, *now.value);
    if (!state.has_fired) {
      if (!beyond) state.beyond.reset();
      if (beyond && !state.beyond) state.beyond = time;
      if (!beyond || time - *state.beyond < state.rule.hold) continue;
      state.has_fired = true;
      state.back.reset();
      state.fired = {
          state.rule.name, state.rule.figure,    state.rule.severity,    true,      time, *state.beyond,
          now.value,       state.rule.threshold, state.rule.fires_above, now.detail};
      events_.push_back(state.fired);
      continue;
    }
    // How many were killed is told of the sample in which they were.
    if (now.value && (beyond || *state.figure != RiskFigure::oom_kills)) {
      state.fired.value = now.value;
      if (beyond) state.fired.detail = now.detail;
    }
    if (!is_back(state.rule, now.value))
      state.back.reset();
    else if (!state.back)
      state.back = time;
    if (!state.back || time - *state.back < state.rule.clear_hold) continue;
    state.has_fired = false;
    state.beyond.reset();
    AlertEvent ended = state.fired;
    ended.fired = false;
    ended.time = time;
    ended.value = now.value;
    events_.push_back(std::move(ended));
  }
  return events_;
}

std::vector<AlertEvent> Alerts::active() const {
  std::vector<AlertEvent> fired;
  for (const State& state : states_)
    if (state.has_fired) fired.push_back(state.fired);
  return fired;
}

std::string sentence_for(const AlertEvent& event) {
  const auto figure = risk_figure_by_name(event.figure);
  if (!figure) return event.rule;
  if (!event.fired)
    return fmt::format("{}: ended after {}", event.rule,
                       duration_words((event.time - event.since).seconds()));
  if (!event.value) return event.rule;
  std::string said = fmt::format("{}: {}", event.rule, words_for(*figure, *event.value, event.detail));
  if (*figure == RiskFigure::oom_kills || *figure == RiskFigure::throttled) return said;
  return fmt::format("{} ({} {})", said, event.fires_above ? "limit" : "minimum",
                     value_words(*figure, event.threshold));
}

}  // namespace headroom::monitoring
