// Evaluates the alert rules on each sample, logs alerts on standard error, and runs their actions.
#pragma once

#include <span>

#include "monitoring/alerts.h"
#include "watch/alert_actions.h"
#include "watch/alert_rules_file.h"

namespace headroom::watch {

class AlertWatch {
 public:
  AlertWatch(AlertSettings settings, Nanoseconds interval)
      : risk_(interval), alerts_(std::move(settings.rules)), actions_(std::move(settings.actions)) {}

  // Returns the alerts that began or ended with this sample; valid until the next call.
  std::span<const AlertEvent> add(const SystemSample& sample);
  const monitoring::MemoryRisk& risk() const { return risk_; }
  std::vector<AlertEvent> active() const { return alerts_.active(); }
  // The number of alerts that began.
  std::int64_t fired() const { return fired_; }
  // Waits up to five seconds for running actions.
  void finish() { actions_.finish({5'000'000'000}); }

 private:
  monitoring::MemoryRisk risk_;
  monitoring::Alerts alerts_;
  AlertActions actions_;
  std::int64_t fired_ = 0;
};

}  // namespace headroom::watch
