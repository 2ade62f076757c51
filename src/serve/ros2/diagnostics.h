// Converts samples and alerts to ROS 2 diagnostics: one status for each component (memory, swap, GPU,
// temperature, power). Its level is that of its most severe alert (docs/ros2.md).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "monitoring/memory_risk.h"
#include "serve/ros2/publisher.h"
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

// Decides which samples are published: one per second, and each sample with which an alert begins or ends.
// With a sampling interval above one second, every sample is published.
class DiagnosticsFeed {
 public:
  // `interval`: the sampling interval.
  DiagnosticsFeed(std::unique_ptr<DiagnosticsPublisher> publisher, std::string hardware_id,
                  Nanoseconds interval)
      : publisher_(std::move(publisher)), diagnostics_(std::move(hardware_id)), interval_(interval) {}

  // `has_changed`: an alert began or ended with this sample. A publishing error is logged as a warning, once.
  void add(const SystemSample& sample, const monitoring::MemoryRisk& risk, std::span<const AlertEvent> active,
           bool has_changed);
  // Publishes all statuses as stale.
  void end();

 private:
  void publish(const DiagnosticArray& array);

  std::unique_ptr<DiagnosticsPublisher> publisher_;
  Diagnostics diagnostics_;
  Nanoseconds interval_;
  std::optional<Nanoseconds> due_;
  bool has_warned_ = false;
};

}  // namespace headroom::ros2
