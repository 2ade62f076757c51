#include "watch/alert_rules_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "base/units.h"
#include "monitoring/alerts.h"

namespace headroom::watch {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestFile = mebibytes(1);
constexpr AlertSeverity kSeverities[] = {AlertSeverity::info, AlertSeverity::warning,
                                         AlertSeverity::critical};

class RulesReader {
 public:
  RulesReader(std::string name, fs::path folder) : errors_(std::move(name)), folder_(std::move(folder)) {}

  Result<AlertSettings> read(const toml::table& document) {
    settings_ = default_alert_settings();
    for (const auto& [key, node] : document) {
      const std::string word = without_stand_ins(key.str());
      if (word == "defaults") {
        if (!node.is_boolean()) return errors_.wrong(node, "'defaults' must be true or false");
        if (!node.as_boolean()->get()) settings_.rules.clear();
      } else if (word != "rule" && word != "action") {
        return errors_.unknown_key(node, word, {"defaults", "rule", "action"});
      } else if (!node.is_array_of_tables()) {
        return errors_.wrong(node, fmt::format("'{}' must be a list of tables", word),
                             fmt::format("write [[{}]]", word));
      }
    }
    // Reads all rules before the actions, because actions refer to rules.
    if (const auto* rules = document["rule"].as_array())
      for (const toml::node& node : *rules)
        if (auto done = read_rule(*node.as_table()); !done) return forward_error(done);
    if (const auto* actions = document["action"].as_array())
      for (const toml::node& node : *actions)
        if (auto done = read_action(*node.as_table()); !done) return forward_error(done);
    return std::move(settings_);
  }

 private:
  Result<std::string> text_of(const toml::node& node, const std::string& key) const {
    if (const auto* text = node.as_string(); text != nullptr && !text->get().empty())
      return without_stand_ins(text->get());
    return errors_.wrong(node, fmt::format("'{}' must be a quoted string", key));
  }

  Result<std::vector<std::string>> texts_of(const toml::node& node, const std::string& key) const {
    const auto* list = node.as_array();
    if (list == nullptr || list->empty())
      return errors_.wrong(node, fmt::format("'{}' must be a list of strings", key),
                           fmt::format("write {} = [\"…\"]", key));
    std::vector<std::string> texts;
    for (const toml::node& element : *list) {
      auto text = text_of(element, key);
      if (!text) return forward_error(text);
      texts.push_back(std::move(*text));
    }
    return texts;
  }

  Result<Nanoseconds> duration_of(const toml::node& node, const std::string& key) const {
    auto text = text_of(node, key);
    if (!text) return errors_.wrong(node, fmt::format("'{}' must be a time such as \"10s\"", key));
    auto duration = parse_duration(*text);
    if (!duration || duration->count < 0)
      return errors_.wrong(node, fmt::format("'{}' is not a valid time: \"{}\"", key, *text),
                           "write \"10s\" or \"5min\"");
    return *duration;
  }

  Result<AlertSeverity> severity_of(const toml::node& node) const {
    auto text = text_of(node, "severity");
    if (!text) return forward_error(text);
    for (const AlertSeverity severity : kSeverities)
      if (name_of(severity) == *text) return severity;
    return errors_.wrong(node, fmt::format("unknown severity '{}'", *text), "use info, warning or critical");
  }

  // A number. For figures in bytes or seconds also a text such as "2 GB" or "5min".
  Result<double> value_of(const toml::node& node, const std::string& key, const std::string& figure) const {
    if (const auto number = node.value<double>(); number && std::isfinite(*number) && node.is_number())
      return *number;
    const bool is_bytes = figure.find("_bytes") != figure.npos;
    const bool is_seconds = figure.ends_with("_seconds_left");
    if (const auto* text = node.as_string()) {
      const std::string words = without_stand_ins(text->get());
      if (is_bytes)
        if (const auto size = parse_size(words)) return static_cast<double>(size->count);
      if (is_seconds)
        if (const auto duration = parse_duration(words)) return duration->seconds();
    }
    return errors_.wrong(node, fmt::format("'{}' must be a number{}", key,
                                           is_bytes     ? " or a size such as \"2 GB\""
                                           : is_seconds ? " or a time such as \"5min\""
                                                        : ""));
  }

  Result<std::string> figure_of(const toml::node& node) const {
    auto figure = text_of(node, "figure");
    if (!figure) return forward_error(figure);
    if (monitoring::risk_figure_by_name(*figure)) return figure;
    std::vector<std::string> known;
    for (std::size_t i = 0; i < monitoring::kRiskFigures; ++i)
      known.emplace_back(name_of(static_cast<monitoring::RiskFigure>(i)));
    const std::string closest = closest_match(*figure, known);
    return errors_.wrong(
        node, fmt::format("unknown figure '{}'", *figure),
        closest.empty() ? "docs/alerts.md lists them" : fmt::format("did you mean '{}'?", closest));
  }

  AlertRule* find_rule(const std::string& name) {
    const auto found = std::find_if(settings_.rules.begin(), settings_.rules.end(),
                                    [&](const AlertRule& rule) { return rule.name == name; });
    return found == settings_.rules.end() ? nullptr : &*found;
  }

  // Settings that the table omits keep the value of the default rule of that name.
  Status read_rule(const toml::table& table) {
    const toml::node* name_node = table.get("name");
    if (name_node == nullptr) return errors_.wrong(table, "a rule has no name", "write name = \"…\"");
    auto name = text_of(*name_node, "name");
    if (!name) return forward_error(name);
    if (!names_.insert(*name).second)
      return errors_.wrong(*name_node, fmt::format("duplicate rule '{}'", *name));
    const AlertRule* known = find_rule(*name);
    AlertRule rule = known != nullptr ? *known : AlertRule{};
    rule.name = *name;
    if (known == nullptr) rule.clear_hold = {10'000'000'000};
    if (const toml::node* figure = table.get("figure")) {
      auto text = figure_of(*figure);
      if (!text) return forward_error(text);
      rule.figure = *text;
    }
    if (rule.figure.empty())
      return errors_.wrong(table, fmt::format("the rule '{}' has no figure", *name),
                           "docs/alerts.md lists them");
    bool is_enabled = true, has_threshold = known != nullptr, has_clear = false;
    for (const auto& [key, node] : table) {
      const std::string word = without_stand_ins(key.str());
      if (word == "name" || word == "figure") continue;
      if (word == "above" || word == "below" || word == "clear") {
        auto value = value_of(node, word, rule.figure);
        if (!value) return forward_error(value);
        if (word != "clear") rule.fires_above = word == "above";
        (word == "clear" ? rule.clear : rule.threshold) = *value;
        (word == "clear" ? has_clear : has_threshold) = true;
      } else if (word == "for" || word == "clear_for") {
        auto duration = duration_of(node, word);
        if (!duration) return forward_error(duration);
        (word == "for" ? rule.hold : rule.clear_hold) = *duration;
      } else if (word == "severity") {
        auto severity = severity_of(node);
        if (!severity) return forward_error(severity);
        rule.severity = *severity;
      } else if (word == "enabled") {
        if (!node.is_boolean()) return errors_.wrong(node, "'enabled' must be true or false");
        is_enabled = node.as_boolean()->get();
      } else {
        return errors_.unknown_key(
            node, word,
            {"name", "figure", "above", "below", "clear", "for", "clear_for", "severity", "enabled"});
      }
    }
    return keep(table, std::move(rule), is_enabled, has_threshold, has_clear);
  }

  Status clears_too_early(const toml::table& table, const AlertRule& rule) const {
    const std::string key = rule.fires_above ? "above" : "below";
    const toml::node* clear = table.get("clear");
    const toml::node* threshold = table.get(key);
    // As the file says it; a value of the default rule in Headroom's own format.
    const auto words = [&](const toml::node* node, double value) {
      if (node != nullptr && node->is_string()) return without_stand_ins(node->as_string()->get());
      if (node == nullptr && rule.figure.find("_bytes") != rule.figure.npos)
        return format_bytes({static_cast<std::int64_t>(value)});
      return fmt::format("{:g}", value);
    };
    const toml::node& wrong = clear != nullptr ? *clear : threshold != nullptr ? *threshold : table;
    return errors_.wrong(wrong, fmt::format("the rule '{}' would clear before it fires", rule.name),
                         fmt::format("'clear' ({}) must be at {} {} ({})", words(clear, rule.clear),
                                     rule.fires_above ? "most" : "least",
                                     threshold != nullptr ? "'" + key + "'" : "the threshold",
                                     words(threshold, rule.threshold)));
  }

  Status keep(const toml::table& table, AlertRule rule, bool is_enabled, bool has_threshold, bool has_clear) {
    if (table.contains("above") && table.contains("below"))
      return errors_.wrong(table, fmt::format("the rule '{}' has both above and below", rule.name),
                           "keep one of them");
    if (!has_threshold)
      return errors_.wrong(table, fmt::format("the rule '{}' has no threshold", rule.name),
                           "write above = … or below = …");
    if (!has_clear && (table.contains("above") || table.contains("below"))) rule.clear = rule.threshold;
    if (rule.fires_above ? rule.clear > rule.threshold : rule.clear < rule.threshold)
      return clears_too_early(table, rule);
    AlertRule* known = find_rule(rule.name);
    if (!is_enabled) {
      std::erase_if(settings_.rules, [&](const AlertRule& each) { return each.name == rule.name; });
    } else if (known != nullptr) {
      *known = std::move(rule);
    } else {
      settings_.rules.push_back(std::move(rule));
    }
    return {};
  }

  Status read_action(const toml::table& table) {
    AlertAction action;
    int kinds = 0;
    for (const auto& [key, node] : table) {
      const std::string word = without_stand_ins(key.str());
      if (word == "command") {
        auto command = texts_of(node, word);
        if (!command) return forward_error(command);
        action.command = std::move(*command);
        action.kind = AlertAction::Kind::command;
        ++kinds;
      } else if (word == "webhook" || word == "mqtt" || word == "file") {
        auto text = text_of(node, word);
        if (!text) return forward_error(text);
        if (auto done = set_target(action, node, word, *text); !done) return done;
        ++kinds;
      } else if (word == "severity") {
        auto severity = severity_of(node);
        if (!severity) return forward_error(severity);
        action.min_severity = *severity;
      } else if (word == "rules") {
        auto rules = texts_of(node, word);
        if (!rules) return forward_error(rules);
        for (const std::string& rule : *rules)
          if (find_rule(rule) == nullptr) return errors_.wrong(node, fmt::format("unknown rule '{}'", rule));
        action.rules = std::move(*rules);
      } else {
        return errors_.unknown_key(node, word, {"command", "webhook", "mqtt", "file", "severity", "rules"});
      }
    }
    if (kinds != 1)
      return errors_.wrong(table, "an action needs exactly one target",
                           "set one of command, webhook, mqtt and file");
    settings_.actions.push_back(std::move(action));
    return {};
  }

  Status set_target(AlertAction& action, const toml::node& node, const std::string& word,
                    const std::string& text) {
    const auto begins = [&](std::string_view scheme) {
      return text.starts_with(scheme) && text.size() > scheme.size();
    };
    if (word == "webhook" && !begins("http://") && !begins("https://"))
      return errors_.wrong(node, fmt::format("'{}' is not an HTTP URL", text), "write http://HOST/PATH");
    if (word == "mqtt" && ((!begins("mqtt://") && !begins("mqtts://")) || text.find('/', 8) == text.npos))
      return errors_.wrong(node, fmt::format("'{}' is not an MQTT topic URL", text),
                           "write mqtt://HOST[:PORT]/TOPIC");
    action.kind = word == "webhook" ? AlertAction::Kind::webhook
                  : word == "mqtt"  ? AlertAction::Kind::mqtt
                                    : AlertAction::Kind::file;
    if (word == "file")
      action.file = fs::path(text).is_absolute() || folder_.empty() ? fs::path(text) : folder_ / text;
    else
      action.url = text;
    return {};
  }

  TomlErrors errors_;
  fs::path folder_;
  AlertSettings settings_;
  std::set<std::string> names_;
};

}  // namespace

AlertSettings default_alert_settings() { return {monitoring::default_alert_rules(), {}}; }

Result<AlertSettings> parse_alert_rules(std::string_view text, const std::string& name,
                                        const fs::path& folder) {
  auto document = parse_toml(text, name);
  if (!document) return forward_error(document);
  return RulesReader(name, folder).read(*document);
}

Result<AlertSettings> read_alert_rules(const fs::path& path) {
  auto text = read_file(path, kLargestFile);
  if (!text) {
    text.error().kind = ErrorKind::usage;
    return forward_error(text);
  }
  return parse_alert_rules(*text, path.filename().string(), path.parent_path());
}

}  // namespace headroom::watch
