// Alert rules: for any file content, the reader returns rules that an engine accepts, or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "monitoring/alerts.h"
#include "watch/alert_rules_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headroom;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto settings = watch::parse_alert_rules(text, "fuzz.toml", "/nowhere");
  if (!settings) return 0;
  monitoring::Alerts alerts(settings->rules);
  monitoring::MemoryRisk risk({1'000'000'000});
  risk.add(SystemSample{});
  alerts.update({}, risk);
  for (const auto& rule : settings->rules)
    if (!monitoring::risk_figure_by_name(rule.figure)) __builtin_trap();
  return 0;
}
