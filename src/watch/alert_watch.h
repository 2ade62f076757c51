// The alerts of a run: rules over its samples, warnings on standard error, actions.
#pragma once

#include <span>

#include "analysis/alerts.h"
#include "watch/alert_actions.h"
#include "watch/alert_rules_file.h"

namespace headroom::watch {

class AlertWatch {
 public:
  AlertWatch(AlertSettings settings, Nanoseconds interval)
      : risk_(interval), alerts_(std::move(settings.rules)), actions_(std::move(settings.actions)) {}

  // What began or ended with this sample; valid until the next call.
  std::span<const AlertEvent> add(const SystemSample& sample);
  const analysis::MemoryRisk& risk() const { return risk_; }
  std::vector<AlertEvent> active() const { return alerts_.active(); }
  // How many began.
  std::int64_t fired() const { return fired_; }
  // Gives what still runs five seconds.
  void finish() { actions_.finish({5'000'000'000}); }

 private:
  analysis::MemoryRisk risk_;
  analysis::Alerts alerts_;
  AlertActions actions_;
  std::int64_t fired_ = 0;
};

}  // namespace headroom::watch
