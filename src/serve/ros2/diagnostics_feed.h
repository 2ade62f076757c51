// Decides which samples are published: one per second, and each sample with which an alert begins or ends.
// With a sampling interval above one second, every sample is published.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "serve/ros2/diagnostics.h"
#include "serve/ros2/publisher.h"

namespace headroom::ros2 {

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
