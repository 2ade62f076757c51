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

// {number}, {bytes} and {duration} of `value` are the figure's value. In `sentence`, {0} is the value with
// its unit, {1} the sensor, GPU or memory, or else `nameless`.
struct FigureSentence {
  std::string_view value, sentence, nameless = "memory";
};

// In the order of RiskFigure.
constexpr FigureSentence kSentences[kRiskFigures] = {
    {"{number:.1f} %", "{0} of {1} is used"},
    {"{number:.1f} %", "{0} of {1} is used"},
    {"{bytes}", "{0} of memory is available"},
    {"{bytes}", "{0} of swap is in use"},
    {"{number:.1f} °C", "{1} is at {0}", "a sensor"},
    {"{bytes} per hour", "{1} grows by {0}"},
    {"{duration}", "{1} will be exhausted in {0} at the current growth"},
    {"{duration}", "{1} will be exhausted in {0} at the current growth"},
    {"{number:.0f} pages per second", "{0} are read back from disk or swap while tasks wait for memory"},
    {"{number:.0f} times smaller", "the largest free block is {0} than before with the same free memory"},
    {"{number:.1f} %", "all tasks wait for memory {0} of the time"},
    {"{number:.0f} process{es}", "the kernel killed {0} because memory ran out"},
    {"", "heat or power limits reduce the clocks"},
    {"{number:.0f} per hour", "open descriptors of {1} grow by {0}"}};

std::string value_words(RiskFigure figure, double value) {
  return fmt::format(fmt::runtime(kSentences[static_cast<std::size_t>(figure)].value),
                     fmt::arg("number", value), fmt::arg("bytes", format_bytes({std::llround(value)})),
                     fmt::arg("duration", duration_words(value)), fmt::arg("es", value == 1 ? "" : "es"));
}

std::string words_for(RiskFigure figure, double value, std::string_view detail) {
  const auto& [unit, sentence, nameless] = kSentences[static_cast<std::size_t>(figure)];
  return fmt::format(fmt::runtime(sentence), value_words(figure, value), detail.empty() ? nameless : detail);
}

}  // namespace

const std::vector<AlertRule>& default_alert_rules() {
  using enum AlertSeverity;
  using enum RiskFigure;
  static const std::vector<AlertRule> rules = {
      // Of the guide: GPU or unified memory over 80 %, all memory over 85 %, less than 2 GB available, swap
      // in use, over 80 degrees.
      rule("gpu_memory", gpu_memory_used_percent, true, 80, 75, seconds(5), seconds(10), warning),
      rule("total_memory", ram_used_percent, true, 85, 80, seconds(5), seconds(10), critical),
      rule("little_available", ram_available_bytes, false, 2e9, 2.25e9, seconds(5), seconds(10), warning),
      // Some pages are always in swap after the start of a machine.
      rule("swap_in_use", swap_used_bytes, true, 64 << 20, 32 << 20, seconds(5), seconds(10), warning),
      rule("temperature", temperature_celsius, true, 80, 75, seconds(3), seconds(10), warning),
      rule("memory_grows", memory_growth_bytes_per_hour, true, 256 << 20, 64 << 20, seconds(60), seconds(60),
           warning),
      rule("memory_runs_out", memory_seconds_left, false, 300, 450, seconds(0), seconds(15), critical),
      rule("nvmap_runs_out", nvmap_seconds_left, false, 300, 450, seconds(0), seconds(15), warning),
      rule("thrashing", thrash_pages_per_second, true, 2500, 500, seconds(3), seconds(10), critical),
      rule("fragmentation", fragmentation_factor, true, 3.5, 2, seconds(30), seconds(30), warning),
      rule("oom_kill", oom_kills, true, 0, 0, seconds(0), seconds(10), critical),
      rule("throttled", throttled, true, 0.5, 0.5, seconds(3), seconds(10), info),
      // A process may have 1,024 descriptors by default: at this rate, they last ten hours.
      rule("descriptors_grow", descriptor_growth_per_hour, true, 100, 20, seconds(60), seconds(60), warning),
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
    // The number of killed processes is that of the sample with the kill.
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
