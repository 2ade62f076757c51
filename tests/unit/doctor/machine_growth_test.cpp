// Growing memory: when it will be exhausted, which process grows, and growth that is not a leak.
#include <algorithm>

#include "machine_samples.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::ElementsAre;

TEST(MachineFindings, SteadyGrowthWithoutNearEndIsAWarning) {
  const auto findings = findings_of(300, [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * i);
  });
  ASSERT_THAT(ids(findings), ElementsAre("memory-grows"));
  EXPECT_EQ(findings[0].severity, Severity::warning);
}

TEST(MachineFindings, SteadyGrowthNamesProcessAndEnd) {
  const auto findings = findings_of(300, [](int i, SystemSample& sample) {
    sample.swap_total = Bytes{};
    *sample.ram_available = *sample.ram_available - mebibytes(8 * i);
    sample.processes = {process(11, "calm", gibibytes(1)), process(10, "leaky", mebibytes(100 + 8 * i))};
  });
  ASSERT_THAT(ids(findings), ElementsAre("memory-running-out"));
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_EQ(findings[0].cures[0].saves, mebibytes(8 * 299));
  EXPECT_THAT(findings[0].title, testing::HasSubstr("most of the growth is in leaky"));
  const auto level = std::find_if(findings[0].figures.begin(), findings[0].figures.end(),
                                  [](const Figure& figure) { return figure.name == "level"; });
  ASSERT_NE(level, findings[0].figures.end());
  EXPECT_EQ(std::get<std::string>(level->value), "process");
  EXPECT_THAT(findings[0].cures[0].what, testing::HasSubstr("leaky"));
  EXPECT_EQ(findings[0].evidence[0].file, "watch.jsonl");
}

TEST(MachineFindings, GrowthThatLevelsOffIsNotALeak) {
  const auto findings = findings_of(600, [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(8 * std::min(i, 100));
  });
  ASSERT_LE(findings.size(), 1U);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.id, "growth-levelled-off");
    EXPECT_EQ(finding.severity, Severity::note);
  }
}

// A process grew until it was killed: the growth has ended.
TEST(MachineFindings, EndedGrowthHasNoForecast) {
  const auto with_end = [](int seconds) {
    return findings_of(seconds, [](int i, SystemSample& sample) {
      sample.swap_total = gibibytes(4);
      sample.ram_available = i < 290 ? gibibytes(6) - mebibytes(18 * i) : gibibytes(6);
    });
  };
  EXPECT_THAT(ids(with_end(290)), testing::Contains("memory-running-out"));
  EXPECT_THAT(ids(with_end(310)), testing::Not(testing::Contains("memory-running-out")));
  EXPECT_THAT(ids(with_end(310)), testing::Not(testing::Contains("memory-grows")));
}

std::string fastest_process(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings)
    for (const Figure& each : finding.figures)
      if (each.name == "fastest_process") return std::get<std::string>(each.value);
  return {};
}

TEST(MachineFindings, FindsLeakAmongManyShortProcesses) {
  const auto findings = findings_of(300, [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * std::max(0, i - 100));
    for (int child = 0; child < 10; ++child)
      sample.processes.push_back(process(1000 + 10 * i + child, "cc1plus", mebibytes(50)));
    if (i >= 100) sample.processes.push_back(process(10, "leaky", mebibytes(2 * i)));
  });
  EXPECT_EQ(fastest_process(findings), "leaky");
}

// The process that grew most may have ended, or may no longer be among the largest.
TEST(MachineFindings, KeepsProcessThatGrewMostAfterItEnds) {
  const auto findings = findings_of(300, [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * i);
    if (i < 100) sample.processes.push_back(process(10, "leaky", mebibytes(2 * i)));
    for (int child = 0; child < 10; ++child)
      sample.processes.push_back(process(1000 + 10 * i + child, "cc1plus", mebibytes(50)));
  });
  EXPECT_EQ(fastest_process(findings), "leaky");
}

TEST(MachineFindings, ReusedProcessNumberIsAnotherProcess) {
  const auto grow = [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * i);
    sample.processes = {process(11, "leaky", mebibytes(100 + i))};
  };
  const auto by_name = findings_of(300, [&](int i, SystemSample& sample) {
    grow(i, sample);
    sample.processes.push_back(i < 150 ? process(10, "sh", mebibytes(1))
                                       : process(10, "server", gibibytes(2)));
  });
  EXPECT_EQ(fastest_process(by_name), "leaky");
  const auto by_start = findings_of(300, [&](int i, SystemSample& sample) {
    grow(i, sample);
    sample.processes.push_back(process(10, "python3", i < 150 ? mebibytes(1) : gibibytes(2)));
    sample.processes.back().start_ticks = i < 150 ? 100 : 90'000;
  });
  EXPECT_EQ(fastest_process(by_start), "leaky");
}

}  // namespace
}  // namespace headroom::test
