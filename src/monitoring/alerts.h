// Which alerts begin and end with a sample. Rules and their defaults: docs/alerts.md.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "monitoring/memory_risk.h"
#include "types/alert.h"

namespace headroom::monitoring {

// The rules of a machine on which nothing else was asked for.
const std::vector<AlertRule>& default_alert_rules();

class Alerts {
 public:
  // Rules whose figure does not exist never fire; whoever reads rules refuses them.
  explicit Alerts(std::vector<AlertRule> rules);

  // What began and ended with this sample's figures; valid until the next call.
  std::span<const AlertEvent> update(Nanoseconds time, const MemoryRisk& risk);
  // Those that have fired and not ended, in the order of the rules.
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

// "total_memory: 91.2 % of memory is used (limit 85 %)" as people read it.
std::string sentence_for(const AlertEvent& event);

}  // namespace headroom::monitoring
