// Alert rules for the figures of a machine, and the alerts that they raise. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/enum_names.h"

namespace headroom {

enum class AlertSeverity : std::uint8_t { info, warning, critical };

constexpr std::string_view name_of(AlertSeverity severity) {
  return name_in({"info", "warning", "critical"}, severity);
}

// An alert starts when the figure has been beyond `threshold` for `hold`. It ends when the figure has been
// back beyond `clear`, or unknown, for `clear_hold`. Two thresholds are needed so that a figure that
// oscillates around one threshold raises one alert.
struct AlertRule {
  std::string name{};               // "total_memory"
  std::string figure{};             // a name of monitoring::RiskFigure
  bool fires_above = true;          // false: fires below the threshold
  double threshold = 0, clear = 0;  // in the figure's unit
  Nanoseconds hold{}, clear_hold{};
  AlertSeverity severity = AlertSeverity::warning;
  friend bool operator==(const AlertRule&, const AlertRule&) = default;
};

// An alert that started or ended.
struct AlertEvent {
  std::string rule, figure;
  AlertSeverity severity = AlertSeverity::warning;
  bool fired = true;            // false: the alert ended
  Nanoseconds time;             // of the sample
  Nanoseconds since;            // when the figure passed the threshold
  std::optional<double> value;  // of the figure at `time`; absent if unknown
  double threshold = 0;
  bool fires_above = true;
  std::string detail;  // the sensor, GPU or memory
  friend bool operator==(const AlertEvent&, const AlertEvent&) = default;
};

}  // namespace headroom
