// Samples and alerts as ROS 2 knows them: one status a component (memory, swap, GPU, temperature, power),
// whose level is that of its most severe alert (docs/ros2.md).
#pragma once

#include <array>
#include <span>
#include <string>

#include "analysis/memory_risk.h"
#include "model/alert.h"
#include "model/sample.h"
#include "ros2/diagnostic_array.h"

namespace headroom::ros2 {

inline constexpr std::size_t kComponents = 5;

class Diagnostics {
 public:
  // `hardware_id`: of every status; the machine's name.
  explicit Diagnostics(std::string hardware_id);

  // A component of which nothing is told has no status; one of which something was told before is stale.
  DiagnosticArray of(const SystemSample& sample, const analysis::MemoryRisk& risk,
                     std::span<const AlertEvent> active);
  // When nothing more is going to come: whatever was told is stale.
  DiagnosticArray ended(Nanoseconds stamp) const;

 private:
  DiagnosticStatus stale(std::size_t component, std::string message) const;

  std::string hardware_id_;
  std::array<bool, kComponents> was_told_{};
};

}  // namespace headroom::ros2
