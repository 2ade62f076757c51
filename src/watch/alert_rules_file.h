// The rules and actions of a TOML file (docs/alerts.md).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/alert.h"

namespace headroom::watch {

// What is done when an alert begins or ends.
struct AlertAction {
  enum class Kind { command, webhook, mqtt, file };
  Kind kind = Kind::command;
  std::vector<std::string> command;  // and its arguments
  std::string url;                   // of a webhook (http, https) or an MQTT topic (mqtt, mqtts)
  std::filesystem::path file;        // a JSON object a line is appended
  AlertSeverity least = AlertSeverity::warning;
  std::vector<std::string> rules;  // those it is for; empty: all
};

struct AlertSettings {
  std::vector<AlertRule> rules;
  std::vector<AlertAction> actions;
};

// The defaults and no action.
AlertSettings default_alert_settings();

// Rules replace defaults of the same name; `defaults = false` leaves the others out. Paths of the file are
// relative to its folder. Errors name the line.
Result<AlertSettings> parse_alert_rules(std::string_view text, const std::string& name,
                                        const std::filesystem::path& folder);
Result<AlertSettings> read_alert_rules(const std::filesystem::path& path);

}  // namespace headroom::watch
