// Raises and ends alerts. docs/alerts.md has the default rules.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "monitoring/memory_risk.h"
#include "types/alert.h"

namespace headroom::monitoring {

const std::vector<AlertRule>& default_alert_rules();

class Alerts {
 public:
  // Rules for unknown figures never fire; readers of rules reject them.
  explicit Alerts(std::vector<AlertRule> rules);

  // The alerts that this sample starts and ends; valid until the next call.
  std::span<const AlertEvent> update(Nanoseconds time, const MemoryRisk& risk);
  // Alerts that have not ended, in the order of the rules.
  std::vector<AlertEvent> active() const;

 private:
  struct State {
    AlertRule rule;
    std::optional<RiskFigure> figure;
    std::optional<Nanoseconds> beyond;  // since when the figure is beyond the threshold
    std::optional<Nanoseconds> back;    // of a fired one: since when it is back
    bool has_fired = false;
    AlertEvent fired;
  };
  std::vector<State> states_;
  std::vector<AlertEvent> events_;
};

// "total_memory: 91.2 % of memory is used (limit 85 %)".
std::string sentence_for(const AlertEvent& event);

}  // namespace headroom::monitoring
