// When an alert begins and ends.
#include "monitoring/alerts.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace headroom::monitoring {
namespace {

constexpr Bytes kTotal = gibibytes(16);

Nanoseconds alert_second(double second) { return {static_cast<std::int64_t>(second * 1e9)}; }

// One rule. It receives the used share of memory once a second.
class OneRule : public ::testing::Test {
 protected:
  OneRule()
      : alerts_({{"total_memory", "ram_used_percent", true, 85, 80, alert_second(5), alert_second(10),
                  AlertSeverity::critical}}) {}

  std::vector<AlertEvent> feed(std::optional<double> percent) {
    SystemSample sample;
    sample.time = alert_second(second_++);
    if (percent) {
      sample.ram_total = kTotal;
      sample.ram_used = Bytes{static_cast<std::int64_t>(*percent / 100 * static_cast<double>(kTotal.count))};
    }
    risk_.add(sample);
    const auto events = alerts_.update(sample.time, risk_);
    return {events.begin(), events.end()};
  }
  std::size_t events_of(std::optional<double> percent, int seconds) {
    std::size_t count = 0;
    for (int i = 0; i < seconds; ++i) count += feed(percent).size();
    return count;
  }

  int second_ = 0;
  MemoryRisk risk_{alert_second(1)};
  Alerts alerts_;
};

TEST_F(OneRule, FiresAfterHoldTimeAndEndsAfterClearTime) {
  EXPECT_EQ(events_of(50, 3), 0u);
  EXPECT_EQ(events_of(90, 5), 0u);
  const auto fired = feed(91);
  ASSERT_EQ(fired.size(), 1u);
  EXPECT_TRUE(fired[0].fired);
  EXPECT_EQ(fired[0].since, alert_second(3));
  EXPECT_EQ(fired[0].severity, AlertSeverity::critical);
  EXPECT_EQ(sentence_for(fired[0]), "total_memory: 91.0 % of memory is used (limit 85.0 %)");
  EXPECT_EQ(alerts_.active().size(), 1u);

  EXPECT_EQ(events_of(70, 10), 0u);
  const auto ended = feed(70);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_FALSE(ended[0].fired);
  EXPECT_EQ(sentence_for(ended[0]), "total_memory: ended after 16 s");
  EXPECT_TRUE(alerts_.active().empty());
}

TEST_F(OneRule, IgnoresShortPeaks) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(events_of(90, 4) + events_of(60, 1), 0u);
}

TEST_F(OneRule, FiresOnceWhenValueOscillatesAroundThreshold) {
  std::size_t events = events_of(86, 10);
  for (int i = 0; i < 100; ++i) events += events_of(84, 1) + events_of(86, 1);
  // Below the threshold but above the clear value: still the same alert.
  events += events_of(82, 60);
  // A short fall below the clear value does not end it.
  events += events_of(70, 5) + events_of(90, 5);
  EXPECT_EQ(events, 1u);
}

TEST_F(OneRule, EndsWhenFigureIsMissing) {
  EXPECT_EQ(events_of(90, 6), 1u);
  EXPECT_EQ(events_of(std::nullopt, 11), 1u);
  EXPECT_TRUE(alerts_.active().empty());
}

TEST(AlertsTest, DefaultRulesAreConsistent) {
  std::set<std::string> names;
  for (const AlertRule& rule : default_alert_rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_TRUE(risk_figure_by_name(rule.figure)) << rule.figure;
    if (rule.fires_above)
      EXPECT_LE(rule.clear, rule.threshold) << rule.name;
    else
      EXPECT_GE(rule.clear, rule.threshold) << rule.name;
  }
}

TEST(AlertsTest, ReportsLeakBeforeMemoryRunsOut) {
  Alerts alerts(default_alert_rules());
  MemoryRisk risk(alert_second(1));
  std::vector<std::string> fired;
  for (int second = 0; second < 1000; ++second) {
    SystemSample sample;
    sample.time = alert_second(second);
    sample.ram_total = kTotal;
    sample.ram_used = Bytes{(2000 + 14 * second) * std::int64_t{1 << 20}};
    sample.ram_available = Bytes{kTotal.count - sample.ram_used->count};
    risk.add(sample);
    for (const AlertEvent& event : alerts.update(sample.time, risk)) fired.push_back(event.rule);
  }
  EXPECT_EQ(fired, (std::vector<std::string>{"memory_grows", "memory_runs_out", "total_memory",
                                             "little_available"}));
}

TEST(AlertsTest, ReportsOomKillImmediatelyAndOnce) {
  Alerts alerts(default_alert_rules());
  MemoryRisk risk(alert_second(1));
  std::vector<std::string> sentences;
  for (int second = 0; second < 30; ++second) {
    SystemSample sample;
    sample.time = alert_second(second);
    sample.oom_kills = second == 5 ? 1 : 0;
    risk.add(sample);
    for (const AlertEvent& event : alerts.update(sample.time, risk)) sentences.push_back(sentence_for(event));
    if (second == 8) {
      EXPECT_EQ(alerts.active().at(0).value, 1.0) << "not the 0 of later samples";
    }
  }
  EXPECT_EQ(sentences,
            (std::vector<std::string>{"oom_kill: the kernel killed 1 process because memory ran out",
                                      "oom_kill: ended after 11 s"}));
}

TEST(AlertsTest, RuleForUnknownFigureNeverFires) {
  Alerts alerts({{"nonsense", "no_such_figure", true, 0, 0, {}, {}, AlertSeverity::info}});
  MemoryRisk risk(alert_second(1));
  risk.add(SystemSample{});
  EXPECT_TRUE(alerts.update({}, risk).empty());
}

}  // namespace
}  // namespace headroom::monitoring
