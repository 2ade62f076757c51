// The figures that alerts watch, from generated samples.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "monitoring/alerts.h"
#include "monitoring/memory_risk.h"

namespace headroom::monitoring {
namespace {

constexpr Bytes kRiskTotal = gibibytes(8);

Nanoseconds second_at(double second) { return {static_cast<std::int64_t>(second * 1e9)}; }

SystemSample machine(double second, Bytes used) {
  SystemSample sample;
  sample.time = second_at(second);
  sample.ram_total = kRiskTotal;
  sample.ram_used = used;
  sample.ram_available = Bytes{kRiskTotal.count - used.count};
  sample.ram_free = Bytes{(kRiskTotal.count - used.count) / 2};
  return sample;
}

TEST(MemoryRiskTest, MissingFiguresAreAbsent) {
  MemoryRisk risk(second_at(1));
  risk.add(SystemSample{});
  for (std::size_t i = 0; i < kRiskFigures; ++i)
    EXPECT_FALSE(risk[static_cast<RiskFigure>(i)].value) << name_of(static_cast<RiskFigure>(i));
}

TEST(MemoryRiskTest, FindsFiguresByName) {
  for (std::size_t i = 0; i < kRiskFigures; ++i) {
    const auto figure = static_cast<RiskFigure>(i);
    EXPECT_EQ(risk_figure_by_name(name_of(figure)), figure);
  }
  EXPECT_FALSE(risk_figure_by_name("ram"));
}

TEST(MemoryRiskTest, ComputesSharesOfMemory) {
  MemoryRisk risk(second_at(1));
  SystemSample sample = machine(0, gibibytes(6));
  sample.swap_used = mebibytes(100);
  risk.add(sample);
  EXPECT_DOUBLE_EQ(*risk[RiskFigure::ram_used_percent].value, 75);
  EXPECT_DOUBLE_EQ(*risk[RiskFigure::ram_available_bytes].value, 2.0 * (1 << 30));
  EXPECT_DOUBLE_EQ(*risk[RiskFigure::swap_used_bytes].value, 100.0 * (1 << 20));
  EXPECT_FALSE(risk[RiskFigure::gpu_memory_used_percent].value) << "there is no GPU";
}

TEST(MemoryRiskTest, JetsonGpuUsesSystemMemory) {
  MemoryRisk risk(second_at(1));
  SystemSample sample = machine(0, gibibytes(6));
  sample.gpu_percent = 40;
  risk.add(sample);
  EXPECT_DOUBLE_EQ(*risk[RiskFigure::gpu_memory_used_percent].value, 75);
  EXPECT_EQ(risk[RiskFigure::gpu_memory_used_percent].detail, "unified memory");
}

TEST(MemoryRiskTest, PicksFullestGpu) {
  MemoryRisk risk(second_at(1));
  SystemSample sample = machine(0, gibibytes(6));
  for (const std::int64_t index : {0, 1}) {
    GpuSample gpu;
    gpu.index = index;
    gpu.memory_total = gibibytes(10);
    gpu.memory_used = gibibytes(4 + index);
    gpu.memory_reserved = gibibytes(1);
    gpu.temperature_celsius = 70 - static_cast<double>(index);
    sample.gpus.push_back(gpu);
  }
  sample.temperatures_celsius = {{"cpu-thermal", 55}};
  risk.add(sample);
  EXPECT_DOUBLE_EQ(*risk[RiskFigure::gpu_memory_used_percent].value, 60);
  EXPECT_EQ(risk[RiskFigure::gpu_memory_used_percent].detail, "GPU 1");
  EXPECT_DOUBLE_EQ(*risk[RiskFigure::temperature_celsius].value, 70);
  EXPECT_EQ(risk[RiskFigure::temperature_celsius].detail, "GPU 0");
}

TEST(MemoryRiskTest, NamesControlGroupThatRunsOutFirst) {
  MemoryRisk risk(second_at(1));
  for (int second = 0; second < 120; ++second) {
    SystemSample sample = machine(second, Bytes{(2048 + 5 * second) * std::int64_t{1 << 20}});
    sample.cgroup.emplace();
    sample.cgroup->limit = gibibytes(1);
    sample.cgroup->anonymous = Bytes{5 * second * std::int64_t{1 << 20}};
    risk.add(sample);
  }
  ASSERT_TRUE(risk[RiskFigure::memory_seconds_left].value);
  EXPECT_EQ(risk[RiskFigure::memory_seconds_left].detail, "control group");
  EXPECT_NEAR(*risk[RiskFigure::memory_seconds_left].value, 1024.0 / 5 - 120, 8);
  EXPECT_NEAR(*risk[RiskFigure::memory_growth_bytes_per_hour].value, 5.0 * (1 << 20) * 3600, 1e9);
  EXPECT_FALSE(risk[RiskFigure::nvmap_seconds_left].value);
}

// Process 7 leaks a descriptor each second; 8 opens 40 at its start; the machine's programs come and go.
TEST(MemoryRiskTest, NamesTheProcessWhoseDescriptorsGrow) {
  MemoryRisk risk(second_at(1));
  for (int second = 0; second < 120; ++second) {
    SystemSample sample;
    sample.time = second_at(second);
    sample.open_files = 2000 + second % 7 * 60;
    sample.processes.resize(2);
    sample.processes[0].pid = 7;
    sample.processes[0].name = "node";
    sample.processes[0].descriptors = 20 + second;
    sample.processes[1].pid = 8;
    sample.processes[1].descriptors = std::min(second, 40);
    risk.add(sample);
  }
  const RiskValue& growth = risk[RiskFigure::descriptor_growth_per_hour];
  ASSERT_TRUE(growth.value);
  EXPECT_NEAR(*growth.value, 3600, 1);
  EXPECT_EQ(growth.detail, "node (7)");
  for (int second = 120; second < 400; ++second) {  // process 7 has ended
    SystemSample sample;
    sample.time = second_at(second);
    sample.open_files = 2000;
    risk.add(sample);
  }
  EXPECT_FALSE(growth.value);
}

TEST(MemoryRiskTest, ReportsGrowthOfTheMachinesOpenFiles) {
  MemoryRisk risk(second_at(1));
  for (int second = 0; second < 400; ++second) {
    SystemSample sample;
    sample.time = second_at(second);
    sample.open_files = 2000 + 2 * second;
    risk.add(sample);
    if (second == 60) {
      EXPECT_FALSE(risk[RiskFigure::descriptor_growth_per_hour].value) << "too few to be a leak";
    }
  }
  const RiskValue& growth = risk[RiskFigure::descriptor_growth_per_hour];
  ASSERT_TRUE(growth.value);
  EXPECT_NEAR(*growth.value, 7200, 1);
  EXPECT_EQ(growth.detail, "the machine");
}

// Swap in zram takes memory, so it does not count as free space. Swap on a disk does.
TEST(MemoryRiskTest, DiskSwapCountsAsFreeSpace) {
  for (const bool is_zram : {false, true}) {
    MemoryRisk risk(second_at(1));
    for (int second = 0; second < 100; ++second) {
      SystemSample sample = machine(second, Bytes{(4096 + 20 * second) * std::int64_t{1 << 20}});
      sample.swap_total = gibibytes(8);
      sample.swap_used = Bytes{};
      if (is_zram) sample.zram_used = Bytes{};
      risk.add(sample);
    }
    const auto& left = risk[RiskFigure::memory_seconds_left].value;
    if (is_zram) {
      ASSERT_TRUE(left);
      EXPECT_NEAR(*left, 4096.0 / 20 - 100, 10);
    } else {
      EXPECT_FALSE(left) << "12 GiB of room at 20 MiB a second is more than can be said after 100 s";
    }
  }
}

// NvMap can only use free memory. It cannot use the page cache, which other processes can.
TEST(MemoryRiskTest, NvMapForecastUsesFreeMemory) {
  MemoryRisk risk(second_at(1));
  for (int second = 0; second < 60; ++second) {
    SystemSample sample = machine(second, gibibytes(2));
    sample.nvmap_used = gibibytes(1);
    sample.ram_free = Bytes{(5120 - 40 * second) * std::int64_t{1 << 20}};
    risk.add(sample);
  }
  ASSERT_TRUE(risk[RiskFigure::nvmap_seconds_left].value);
  EXPECT_EQ(risk[RiskFigure::nvmap_seconds_left].detail, "free memory");
  EXPECT_NEAR(*risk[RiskFigure::nvmap_seconds_left].value, 5120.0 / 40 - 60, 8);
  EXPECT_FALSE(risk[RiskFigure::memory_seconds_left].value);
}

// Free memory is constant, but the number of its largest blocks falls.
TEST(MemoryRiskTest, ForecastsEndOfLargeBlocks) {
  const auto risk_at = [](int last, bool is_jetson) {
    MemoryRisk risk({1'000'000'000});
    for (int second = 0; second <= last; ++second) {
      SystemSample sample;
      sample.time = {second * 1'000'000'000LL};
      sample.ram_total = gibibytes(8);
      sample.ram_free = gibibytes(4);
      sample.ram_used = gibibytes(3);
      if (is_jetson) sample.gpu_percent = 40;
      sample.largest_free_block = mebibytes(second < 200 ? 4 : 2);
      sample.largest_free_blocks = second < 200 ? 1000 - 5 * second : 2000;
      risk.add(sample);
    }
    return risk[RiskFigure::nvmap_seconds_left];
  };
  const RiskValue half_way = risk_at(100, true);
  ASSERT_TRUE(half_way.value);
  EXPECT_EQ(half_way.detail, "memory in large blocks");
  EXPECT_NEAR(*half_way.value, 100, 10);
  EXPECT_FALSE(risk_at(100, false).value) << "elsewhere the page cache takes them as a matter of course";
  EXPECT_LT(risk_at(203, true).value.value_or(1e9), 3) << "no block of 4 MiB is left";
  EXPECT_FALSE(risk_at(500, true).value) << "it does not get worse";
}

TEST(MemoryRiskTest, RefaultsAreThrashingOnlyIfTasksWait) {
  for (const double pressure : {0.0, 40.0}) {
    MemoryRisk risk(second_at(1));
    for (int second = 0; second < 30; ++second) {
      SystemSample sample = machine(second, gibibytes(6));
      sample.psi_some_avg10 = pressure;
      sample.refaults = 70'000;
      sample.pages_swapped_in = 1000;
      risk.add(sample);
    }
    ASSERT_TRUE(risk[RiskFigure::thrash_pages_per_second].value);
    EXPECT_NEAR(*risk[RiskFigure::thrash_pages_per_second].value, pressure > 0 ? 71'000 : 0, 100);
  }
}

TEST(MemoryRiskTest, SmallerBlocksWithSameFreeMemoryAreFragmentation) {
  const auto factor_after = [](Bytes free_at_end) {
    MemoryRisk risk(second_at(1));
    for (int second = 0; second < 120; ++second) {
      SystemSample sample = machine(second, gibibytes(4));
      sample.ram_free = second < 60 ? gibibytes(2) : free_at_end;
      sample.largest_free_block = second < 60 ? mebibytes(4) : kibibytes(256);
      risk.add(sample);
    }
    return *risk[RiskFigure::fragmentation_factor].value;
  };
  EXPECT_DOUBLE_EQ(factor_after(gibibytes(2)), 16);
  EXPECT_DOUBLE_EQ(factor_after(mebibytes(500)), 1) << "less is free: no wonder";
}

// When an alert begins and ends.

constexpr Bytes kTotal = gibibytes(16);

// One rule. It receives the used share of memory once a second.
class OneRule : public ::testing::Test {
 protected:
  OneRule()
      : alerts_({{"total_memory", "ram_used_percent", true, 85, 80, second_at(5), second_at(10),
                  AlertSeverity::critical}}) {}

  std::vector<AlertEvent> feed(std::optional<double> percent) {
    SystemSample sample;
    sample.time = second_at(second_++);
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
  MemoryRisk risk_{second_at(1)};
  Alerts alerts_;
};

TEST_F(OneRule, FiresAfterHoldTimeAndEndsAfterClearTime) {
  EXPECT_EQ(events_of(50, 3), 0u);
  EXPECT_EQ(events_of(90, 5), 0u);
  const auto fired = feed(91);
  ASSERT_EQ(fired.size(), 1u);
  EXPECT_TRUE(fired[0].fired);
  EXPECT_EQ(fired[0].since, second_at(3));
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
  MemoryRisk risk(second_at(1));
  std::vector<std::string> fired;
  for (int second = 0; second < 1000; ++second) {
    SystemSample sample;
    sample.time = second_at(second);
    sample.ram_total = kTotal;
    sample.ram_used = Bytes{(2000 + 14 * second) * std::int64_t{1 << 20}};
    sample.ram_available = Bytes{kTotal.count - sample.ram_used->count};
    risk.add(sample);
    for (const AlertEvent& event : alerts.update(sample.time, risk)) fired.push_back(event.rule);
  }
  EXPECT_EQ(fired, (std::vector<std::string>{"memory_grows", "memory_runs_out", "total_memory",
                                             "little_available"}));
}

TEST(AlertsTest, ReportsALeakOfDescriptors) {
  Alerts alerts(default_alert_rules());
  MemoryRisk risk(second_at(1));
  std::vector<std::string> sentences;
  for (int second = 0; second < 200; ++second) {
    SystemSample sample;
    sample.time = second_at(second);
    sample.processes.resize(1);
    sample.processes[0].pid = 7;
    sample.processes[0].name = "camera_node";
    sample.processes[0].descriptors = 30 + second / 2;
    risk.add(sample);
    for (const AlertEvent& event : alerts.update(sample.time, risk)) sentences.push_back(sentence_for(event));
  }
  ASSERT_EQ(sentences.size(), 1U);
  EXPECT_EQ(
      sentences[0],
      "descriptors_grow: open descriptors of camera_node (7) grow by 1800 per hour (limit 100 per hour)");
}

TEST(AlertsTest, ReportsOomKillImmediatelyAndOnce) {
  Alerts alerts(default_alert_rules());
  MemoryRisk risk(second_at(1));
  std::vector<std::string> sentences;
  for (int second = 0; second < 30; ++second) {
    SystemSample sample;
    sample.time = second_at(second);
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
  MemoryRisk risk(second_at(1));
  risk.add(SystemSample{});
  EXPECT_TRUE(alerts.update({}, risk).empty());
}

}  // namespace
}  // namespace headroom::monitoring
