#include "watch/alert_rules_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "monitoring/alerts.h"

namespace headroom::watch {
namespace {
using testing::HasSubstr;

const AlertRule* find(const AlertSettings& settings, const std::string& name) {
  const auto found = std::ranges::find(settings.rules, name, &AlertRule::name);
  return found == settings.rules.end() ? nullptr : &*found;
}

AlertSettings parsed(const std::string& text) {
  auto settings = parse_alert_rules(text, "rules.toml", "/etc/headroom");
  EXPECT_TRUE(settings) << settings.error().sentence();
  return settings ? *settings : AlertSettings{};
}

std::string error_of(const std::string& text) {
  const auto settings = parse_alert_rules(text, "rules.toml", "");
  return settings ? "" : settings.error().sentence();
}

TEST(AlertRulesFile, EmptyFileGivesTheDefaults) {
  EXPECT_EQ(parsed("").rules, monitoring::default_alert_rules());
  EXPECT_TRUE(parsed("").actions.empty());
  EXPECT_TRUE(parsed("defaults = false").rules.empty());
}

TEST(AlertRulesFile, RuleKeepsUnsetValuesOfItsDefault) {
  const AlertSettings settings = parsed("[[rule]]\nname = \"total_memory\"\nabove = 92.5\nfor = \"1min\"\n");
  EXPECT_EQ(settings.rules.size(), monitoring::default_alert_rules().size());
  const AlertRule* rule = find(settings, "total_memory");
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->figure, "ram_used_percent");
  EXPECT_DOUBLE_EQ(rule->threshold, 92.5);
  EXPECT_DOUBLE_EQ(rule->clear, 92.5) << "80 clears another threshold";
  EXPECT_EQ(rule->hold, (Nanoseconds{60'000'000'000}));
  EXPECT_EQ(rule->severity, AlertSeverity::critical);
  EXPECT_EQ(find(parsed("[[rule]]\nname = \"swap_in_use\"\nenabled = false\n"), "swap_in_use"), nullptr);
}

TEST(AlertRulesFile, ReadsNewRulesWithSizesAndTimes) {
  const AlertSettings settings = parsed(R"(
defaults = false
[[rule]]
name = "little"
figure = "ram_available_bytes"
below = "1.5 GB"
clear = "2GiB"
severity = "critical"
[[rule]]
name = "soon"
figure = "memory_seconds_left"
below = "10min"
)");
  ASSERT_EQ(settings.rules.size(), 2u);
  EXPECT_FALSE(settings.rules[0].fires_above);
  EXPECT_DOUBLE_EQ(settings.rules[0].threshold, 1.5e9);
  EXPECT_DOUBLE_EQ(settings.rules[0].clear, 2.0 * (1 << 30));
  EXPECT_DOUBLE_EQ(settings.rules[1].threshold, 600);
}

TEST(AlertRulesFile, ReadsActions) {
  const AlertSettings settings = parsed(R"(
[[action]]
command = ["logger", "-t", "headroom"]
severity = "info"
[[action]]
webhook = "https://example.org/hook"
rules = ["total_memory", "mine"]
[[action]]
mqtt = "mqtt://localhost:1883/robots/7"
[[action]]
file = "alerts.jsonl"
[[rule]]
name = "mine"
figure = "throttled"
above = 0
)");
  ASSERT_EQ(settings.actions.size(), 4u);
  EXPECT_EQ(settings.actions[0].command, (std::vector<std::string>{"logger", "-t", "headroom"}));
  EXPECT_EQ(settings.actions[0].min_severity, AlertSeverity::info);
  EXPECT_EQ(settings.actions[1].kind, AlertAction::Kind::webhook);
  EXPECT_EQ(settings.actions[1].rules.size(), 2u);
  EXPECT_EQ(settings.actions[2].url, "mqtt://localhost:1883/robots/7");
  EXPECT_EQ(settings.actions[3].file, "/etc/headroom/alerts.jsonl");
}

TEST(AlertRulesFile, ReportsErrorsWithTheirLine) {
  const struct {
    const char *text, *error;
  } cases[] = {
      {"[[rule]\n", "rules.toml:1: this is not valid TOML"},
      {"x = 1\n", "rules.toml:1: there is no setting 'x'"},
      {"[rule]\nname = \"a\"\n", "'rule' must be a list of tables; write [[rule]]"},
      {"rule = [1]\n", "'rule' must be a list of tables"},
      {"defaults = 1\n", "'defaults' must be true or false"},
      {"[[rule]]\nfigure = \"throttled\"\n", "rules.toml:1: a rule has no name"},
      {"[[rule]]\nname = \"a\"\n", "the rule 'a' has no figure"},
      {"[[rule]]\nname = \"a\"\nfigure = \"ram_used_percen\"\n",
       "rules.toml:3: unknown figure 'ram_used_percen'; did you mean 'ram_used_percent'?"},
      {"[[rule]]\nname = \"a\"\nfigure = \"throttled\"\n", "the rule 'a' has no threshold; write above"},
      {"[[rule]]\nname = \"a\"\nfigure = \"throttled\"\nabove = 1\nbelow = 2\n", "has both above and below"},
      {"[[rule]]\nname = \"a\"\nfigure = \"throttled\"\nabove = \"2 GB\"\n", "'above' must be a number"},
      {"[[rule]]\nname = \"a\"\nfigure = \"swap_used_bytes\"\nabove = \"2\"\n",
       "must be a number or a size such as"},
      {"[[rule]]\nname = \"a\"\nfigure = \"swap_used_bytes\"\nabove = nan\n", "must be a number"},
      {"[[rule]]\nname = \"total_memory\"\nabove = 80\nclear = 90\n",
       "rules.toml:4: the rule 'total_memory' would clear before it fires; 'clear' (90) must be at most "
       "'above' "
       "(80)"},
      {"[[rule]]\nname = \"a\"\nfigure = \"swap_used_bytes\"\nbelow = \"60 GB\"\nclear = \"2 GB\"\n",
       "rules.toml:5: the rule 'a' would clear before it fires; 'clear' (2 GB) must be at least 'below' (60 "
       "GB)"},
      {"[[rule]]\nname = \"total_memory\"\nabov = 80\n",
       "rules.toml:3: there is no setting 'abov'; did you mean"},
      {"[[rule]]\nname = \"total_memory\"\nfor = \"soon\"\n", "'for' is not a valid time"},
      {"[[rule]]\nname = \"total_memory\"\nfor = 5\n", "must be a time such as"},
      {"[[rule]]\nname = \"total_memory\"\nseverity = \"bad\"\n", "use info, warning or critical"},
      {"[[rule]]\nname = \"a\"\nfigure = \"throttled\"\nabove = 1\n[[rule]]\nname = \"a\"\n",
       "duplicate rule 'a'"},
      {"[[action]]\nseverity = \"info\"\n", "an action needs exactly one target"},
      {"[[action]]\nfile = \"a\"\ncommand = [\"b\"]\n", "an action needs exactly one target"},
      {"[[action]]\ncommand = \"rm\"\n", "'command' must be a list of strings"},
      {"[[action]]\ncommand = [1]\n", "must be a string in quotes"},
      {"[[action]]\nwebhook = \"ftp://x\"\n", "is not an HTTP URL; write http://HOST/PATH"},
      {"[[action]]\nmqtt = \"mqtt://host\"\n", "is not an MQTT topic URL; write mqtt://HOST[:PORT]/TOPIC"},
      {"[[action]]\nfile = \"a\"\nrules = [\"none\"]\n", "unknown rule 'none'"},
  };
  for (const auto& each : cases) EXPECT_THAT(error_of(each.text), HasSubstr(each.error)) << each.text;
}

}  // namespace
}  // namespace headroom::watch
