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
#include "types/enum_names.h"

namespace headroom::watch {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestFile = mebibytes(1);

using ReadValue = TomlReader::ReadValue;

// For a key that is read before or after the others.
Status not_here(const toml::node&, const std::string&) { return {}; }

class RulesReader {
 public:
  RulesReader(std::string name, fs::path folder) : toml_(std::move(name)), folder_(std::move(folder)) {}

  Result<AlertSettings> read(const toml::table& document) {
    bool with_defaults = true;
    // Rules come first, because actions refer to them, and `defaults` before both.
    auto done = toml_.read_keys(
        document, {{"defaults", toml_.into(with_defaults)}, {"rule", not_here}, {"action", not_here}});
    if (!done) return forward_error(done);
    if (with_defaults) settings_ = default_alert_settings();
    if (const toml::node* rules = document.get("rule"))
      if (done = toml_.read_tables(*rules, "rule", [&](const auto& table) { return read_rule(table); });
          !done)
        return forward_error(done);
    if (const toml::node* actions = document.get("action"))
      if (done = toml_.read_tables(*actions, "action", [&](const auto& table) { return read_action(table); });
          !done)
        return forward_error(done);
    return std::move(settings_);
  }

 private:
  ReadValue duration_into(Nanoseconds& target) const {
    return [this, &target](const toml::node& node, const std::string& key) -> Status {
      std::string text;
      if (!toml_.read(node, key, text))
        return toml_.wrong(node, fmt::format("'{}' must be a time such as \"10s\"", key));
      const auto duration = parse_duration(text);
      if (!duration)
        return toml_.wrong(node, fmt::format("'{}' is not a valid time: \"{}\"", key, text),
                           "write \"10s\" or \"5min\"");
      target = *duration;
      return {};
    };
  }

  ReadValue severity_into(AlertSeverity& target) const {
    return [this, &target](const toml::node& node, const std::string& key) -> Status {
      std::string text;
      if (auto done = toml_.read(node, key, text); !done) return done;
      const auto found = find_named(text, AlertSeverity::critical);
      if (!found)
        return toml_.wrong(node, fmt::format("unknown severity '{}'", text), "use info, warning or critical");
      target = *found;
      return {};
    };
  }

  // A number. For figures in bytes or seconds also a text such as "2 GB" or "5min".
  ReadValue number_into(double& target, const std::string& figure) const {
    return [this, &target, &figure](const toml::node& node, const std::string& key) -> Status {
      const bool is_bytes = figure.find("_bytes") != figure.npos;
      const bool is_seconds = figure.ends_with("_seconds_left");
      std::optional<double> value;
      if (node.is_number()) {
        value = node.value<double>();
      } else if (const auto* text = node.as_string()) {
        const std::string words = without_stand_ins(text->get());
        const auto size = parse_size(words);
        const auto duration = parse_duration(words);
        if (is_bytes && size) value = static_cast<double>(size->count);
        if (is_seconds && duration) value = duration->seconds();
      }
      if (!value || !std::isfinite(*value))
        return toml_.wrong(node, fmt::format("'{}' must be a number{}", key,
                                             is_bytes     ? " or a size such as \"2 GB\""
                                             : is_seconds ? " or a time such as \"5min\""
                                                          : ""));
      target = *value;
      return {};
    };
  }

  Status read_figure(const toml::node& node, std::string& figure) const {
    if (auto done = toml_.read(node, "figure", figure); !done) return done;
    if (monitoring::risk_figure_by_name(figure)) return {};
    std::vector<std::string> known;
    for (std::size_t i = 0; i < monitoring::kRiskFigures; ++i)
      known.emplace_back(name_of(static_cast<monitoring::RiskFigure>(i)));
    return toml_.wrong(node, fmt::format("unknown figure '{}'", figure),
                       did_you_mean(figure, known, "docs/alerts.md lists them"));
  }

  AlertRule* find_rule(const std::string& name) {
    const auto found = std::ranges::find(settings_.rules, name, &AlertRule::name);
    return found == settings_.rules.end() ? nullptr : &*found;
  }

  // Settings that the table omits keep the value of the default rule of that name.
  Status read_rule(const toml::table& table) {
    const toml::node* name_node = table.get("name");
    if (name_node == nullptr) return toml_.wrong(table, "a rule has no name", "write name = \"…\"");
    std::string name;
    if (auto done = toml_.read(*name_node, "name", name); !done) return done;
    if (!names_.insert(name).second) return toml_.wrong(*name_node, fmt::format("duplicate rule '{}'", name));
    const AlertRule* known = find_rule(name);
    AlertRule rule = known != nullptr ? *known : AlertRule{.name = name, .clear_hold = {10'000'000'000}};
    if (const toml::node* figure = table.get("figure"))
      if (auto done = read_figure(*figure, rule.figure); !done) return done;
    if (rule.figure.empty())
      return toml_.wrong(table, fmt::format("the rule '{}' has no figure", name),
                         "docs/alerts.md lists them");
    bool is_enabled = true;
    auto done = toml_.read_keys(table, {{"name", not_here},
                                        {"figure", not_here},
                                        {"above", number_into(rule.threshold, rule.figure)},
                                        {"below", number_into(rule.threshold, rule.figure)},
                                        {"clear", number_into(rule.clear, rule.figure)},
                                        {"for", duration_into(rule.hold)},
                                        {"clear_for", duration_into(rule.clear_hold)},
                                        {"severity", severity_into(rule.severity)},
                                        {"enabled", toml_.into(is_enabled)}});
    if (!done) return done;
    const bool sets_threshold = table.contains("above") || table.contains("below");
    if (sets_threshold) rule.fires_above = table.contains("above");
    if (table.contains("above") && table.contains("below"))
      return toml_.wrong(table, fmt::format("the rule '{}' has both above and below", name),
                         "keep one of them");
    if (known == nullptr && !sets_threshold)
      return toml_.wrong(table, fmt::format("the rule '{}' has no threshold", name),
                         "write above = … or below = …");
    if (sets_threshold && !table.contains("clear")) rule.clear = rule.threshold;
    if (rule.fires_above ? rule.clear > rule.threshold : rule.clear < rule.threshold)
      return clears_too_early(table, rule);
    if (!is_enabled)
      std::erase_if(settings_.rules, [&](const AlertRule& each) { return each.name == name; });
    else if (AlertRule* replaced = find_rule(name))
      *replaced = std::move(rule);
    else
      settings_.rules.push_back(std::move(rule));
    return {};
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
    return toml_.wrong(wrong, fmt::format("the rule '{}' would clear before it fires", rule.name),
                       fmt::format("'clear' ({}) must be at {} {} ({})", words(clear, rule.clear),
                                   rule.fires_above ? "most" : "least",
                                   threshold != nullptr ? "'" + key + "'" : "the threshold",
                                   words(threshold, rule.threshold)));
  }

  Status read_action(const toml::table& table) {
    AlertAction action;
    int targets = 0;
    const auto read_command = [&](const toml::node& node, const std::string& key) {
      ++targets;
      return read_some_texts(node, key, action.command);
    };
    const auto read_target = [&](const toml::node& node, const std::string& key) {
      ++targets;
      return set_target(action, node, key);
    };
    const auto read_names = [&](const toml::node& node, const std::string& key) -> Status {
      if (auto done = read_some_texts(node, key, action.rules); !done) return done;
      for (const std::string& rule : action.rules)
        if (find_rule(rule) == nullptr) return toml_.wrong(node, fmt::format("unknown rule '{}'", rule));
      return {};
    };
    auto done = toml_.read_keys(table, {{"command", read_command},
                                        {"webhook", read_target},
                                        {"mqtt", read_target},
                                        {"file", read_target},
                                        {"severity", severity_into(action.min_severity)},
                                        {"rules", read_names}});
    if (!done) return done;
    if (targets != 1)
      return toml_.wrong(table, "an action needs exactly one target",
                         "set one of command, webhook, mqtt and file");
    settings_.actions.push_back(std::move(action));
    return {};
  }

  Status read_some_texts(const toml::node& node, const std::string& key,
                         std::vector<std::string>& texts) const {
    auto done = toml_.read(node, key, texts);
    if (done && texts.empty()) return toml_.wrong(node, fmt::format("'{}' is empty", key));
    return done;
  }

  Status set_target(AlertAction& action, const toml::node& node, const std::string& key) const {
    std::string text;
    if (auto done = toml_.read(node, key, text); !done) return done;
    const auto begins = [&](std::string_view scheme) {
      return text.starts_with(scheme) && text.size() > scheme.size();
    };
    if (key == "file") {
      action.kind = AlertAction::Kind::file;
      action.file = folder_ / text;  // an absolute path stays
      return {};
    }
    action.kind = key == "webhook" ? AlertAction::Kind::webhook : AlertAction::Kind::mqtt;
    action.url = text;
    if (key == "webhook" && !begins("http://") && !begins("https://"))
      return toml_.wrong(node, fmt::format("'{}' is not an HTTP URL", text), "write http://HOST/PATH");
    if (key == "mqtt" && ((!begins("mqtt://") && !begins("mqtts://")) || text.find('/', 8) == text.npos))
      return toml_.wrong(node, fmt::format("'{}' is not an MQTT topic URL", text),
                         "write mqtt://HOST[:PORT]/TOPIC");
    return {};
  }

  TomlReader toml_;
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
