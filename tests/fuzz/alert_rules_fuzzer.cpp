// Alert rules: for any file content, the reader returns rules that an engine accepts, or an error.
#include "fuzz.h"
#include "monitoring/alerts.h"
#include "watch/alert_rules_file.h"

void fuzz(std::string_view text) {
  using namespace headroom;
  const auto settings = watch::parse_alert_rules(text, "fuzz.toml", "/nowhere");
  if (!settings) return;
  monitoring::Alerts alerts(settings->rules);
  monitoring::MemoryRisk risk({1'000'000'000});
  risk.add(SystemSample{});
  alerts.update({}, risk);
  for (const auto& rule : settings->rules)
    if (!monitoring::risk_figure_by_name(rule.figure)) __builtin_trap();
}
