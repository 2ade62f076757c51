// What of the samples is published: one a second, and every one with which an alert begins or ends.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "ros2/diagnostics.h"
#include "ros2/publisher.h"

namespace headroom::ros2 {

class DiagnosticsFeed {
 public:
  // `interval`: between samples.
  DiagnosticsFeed(std::unique_ptr<DiagnosticsPublisher> publisher, std::string hardware_id,
                  Nanoseconds interval)
      : publisher_(std::move(publisher)), diagnostics_(std::move(hardware_id)), interval_(interval) {}

  // `has_changed`: an alert began or ended with this sample. What cannot be published is a warning, once.
  void add(const SystemSample& sample, const analysis::MemoryRisk& risk, std::span<const AlertEvent> active,
           bool has_changed);
  // Says of everything that it is stale.
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
