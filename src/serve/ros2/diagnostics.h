// Converts samples and alerts to ROS 2 diagnostics: one status for each component (memory, swap, GPU,
// temperature, power). Its level is that of its most severe alert (docs/ros2.md).
#pragma once

#include <array>
#include <span>
#include <string>

#include "monitoring/memory_risk.h"
#include "serve/ros2/diagnostic_array.h"
#include "types/alert.h"
#include "types/sample.h"

namespace headroom::ros2 {

inline constexpr std::size_t kComponents = 5;

class Diagnostics {
 public:
  // `hardware_id`: the machine's name, used in every status.
  explicit Diagnostics(std::string hardware_id);

  // A component without figures has no status. If it had figures before, its status is stale.
  DiagnosticArray of(const SystemSample& sample, const monitoring::MemoryRisk& risk,
                     std::span<const AlertEvent> active);
  // The last message: all statuses that were reported before, as stale.
  DiagnosticArray ended(Nanoseconds stamp) const;

 private:
  DiagnosticStatus stale(std::size_t component, std::string message) const;

  std::string hardware_id_;
  std::array<bool, kComponents> was_reported_{};
};

}  // namespace headroom::ros2
