// Reads alert rules and actions from a TOML file (docs/alerts.md).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "types/alert.h"

namespace headroom::watch {

// What to do when an alert begins or ends.
struct AlertAction {
  enum class Kind { command, webhook, mqtt, file };
  Kind kind = Kind::command;
  std::vector<std::string> command;  // and its arguments
  std::string url;                   // webhook (http, https) or MQTT topic (mqtt, mqtts)
  std::filesystem::path file;        // JSON lines are appended to it
  AlertSeverity min_severity = AlertSeverity::warning;
  std::vector<std::string> rules;  // rules that trigger it; empty: all
};

struct AlertSettings {
  std::vector<AlertRule> rules;
  std::vector<AlertAction> actions;
};

// The default rules, without actions.
AlertSettings default_alert_settings();

// Rules replace the default rules of the same name; `defaults = false` removes all default rules. Paths in
// the file are relative to its folder. Errors name the line.
Result<AlertSettings> parse_alert_rules(std::string_view text, const std::string& name,
                                        const std::filesystem::path& folder);
Result<AlertSettings> read_alert_rules(const std::filesystem::path& path);

}  // namespace headroom::watch
