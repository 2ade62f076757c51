// Rules on the figures of a machine, and what came of them. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace headroom {

enum class AlertSeverity : std::uint8_t { info, warning, critical };

constexpr std::string_view name_of(AlertSeverity severity) {
  switch (severity) {
    case AlertSeverity::info:
      return "info";
    case AlertSeverity::warning:
      return "warning";
    case AlertSeverity::critical:
      return "critical";
  }
  return "warning";
}

// Fires when the figure has been beyond `threshold` for as long as `hold`, and ends when it has been back
// beyond `clear`, or not known, for as long as `clear_hold`. Between the two nothing changes, so a figure
// that trembles about a threshold is one alert.
struct AlertRule {
  std::string name;         // "total_memory"
  std::string figure;       // analysis::RiskFigure's name
  bool fires_above = true;  // else below
  double threshold = 0, clear = 0;
  Nanoseconds hold, clear_hold;
  AlertSeverity severity = AlertSeverity::warning;
  friend bool operator==(const AlertRule&, const AlertRule&) = default;
};

// An alert that began or ended.
struct AlertEvent {
  std::string rule, figure;
  AlertSeverity severity = AlertSeverity::warning;
  bool fired = true;  // else it ended
  Nanoseconds time;   // of the sample
  Nanoseconds since;  // when the figure passed the threshold
  std::optional<double> value;
  double threshold = 0;
  bool fires_above = true;
  std::string detail;  // of which sensor, GPU or memory
  friend bool operator==(const AlertEvent&, const AlertEvent&) = default;
};

}  // namespace headroom
