// Growing memory: when it will be exhausted, which process grows, and growth that is not a leak.

#include <algorithm>

#include "machine_samples.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::ElementsAre;

TEST(MachineFindings, SteadyGrowthNamesProcessAndEnd) {
  const Finding finding = only(
      "memory-running-out", findings_of(300, [](int i, SystemSample& sample) {
        sample.swap_total = Bytes{};
        *sample.ram_available = *sample.ram_available - mebibytes(8 * i);
        sample.processes = {process(11, "calm", gibibytes(1)), process(10, "leaky", mebibytes(100 + 8 * i))};
      }));
  EXPECT_EQ(finding.severity, Severity::severe);
  EXPECT_EQ(finding.cures[0].saves, mebibytes(8 * 299));
  EXPECT_THAT(finding.title, testing::HasSubstr("most of the growth is in leaky"));
  const auto level =
      std::ranges::find_if(finding.figures, [](const Figure& figure) { return figure.name == "level"; });
  ASSERT_NE(level, finding.figures.end());
  EXPECT_EQ(std::get<std::string>(level->value), "process");
  EXPECT_THAT(finding.cures[0].what, testing::HasSubstr("leaky"));
  EXPECT_EQ(finding.evidence[0].file, "watch.jsonl");
}

TEST(MachineFindings, GrowthThatLevelsOffIsNotALeak) {
  const auto findings = findings_of(600, [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(8 * std::min(i, 100));
  });
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

// The process that grew most may have begun late, may have ended, or may no longer be among the largest.
TEST(MachineFindings, FindsLeakAmongManyShortProcesses) {
  for (const bool is_late : {true, false}) {
    const auto findings = findings_of(300, [&](int i, SystemSample& sample) {
      *sample.ram_available = *sample.ram_available - mebibytes(2 * (is_late ? std::max(0, i - 100) : i));
      for (int child = 0; child < 10; ++child)
        sample.processes.push_back(process(1000 + 10 * i + child, "cc1plus", mebibytes(50)));
      if ((i >= 100) == is_late) sample.processes.push_back(process(10, "leaky", mebibytes(2 * i)));
    });
    EXPECT_EQ(fastest_process(findings), "leaky") << is_late;
  }
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

// Logs of several sessions in sequence: all are read, and no figure is carried from one to the next.

using testing::AllOf;
using testing::HasSubstr;

// cat a.jsonl b.jsonl: events of the second session count, and the wall clock gives the time between both.
TEST(MachineFindings, ReadsSecondSession) {
  const auto calm = [](int, SystemSample&) {};
  const auto killed = [](int i, SystemSample& sample) { sample.oom_kills = i == 5 ? 2 : 0; };
  auto findings = findings_of_sessions({{60, calm}, {40, killed}});
  ASSERT_THAT(ids(findings), ElementsAre("kernel-oom-kill"));
  EXPECT_EQ(findings[0].times, 2);
  EXPECT_EQ(findings[0].evidence.at(0).text, "100 samples over 1 min 38 s in 2 sessions");
  EXPECT_THAT(ids(findings_of_sessions({{60, killed}, {40, calm}})), ElementsAre("kernel-oom-kill"));
  const auto by_clock = [&](std::int64_t begin) {
    return [&, begin](int i, SystemSample& sample) {
      killed(i, sample);
      sample.unix_time = Nanoseconds{(begin + i) * 1'000'000'000};
    };
  };
  findings = findings_of_sessions({{60, by_clock(1'700'000'000)}, {40, by_clock(1'700'001'000)}});
  EXPECT_EQ(findings.at(0).evidence.at(0).text, "100 samples over 17 min 19 s in 2 sessions");
  EXPECT_EQ(findings[0].times, 4);
  // The clock was set back, so the time between both is unknown.
  findings = findings_of_sessions({{60, by_clock(1'700'000'000)}, {40, by_clock(1'600'000'000)}});
  EXPECT_EQ(findings.at(0).evidence.at(0).text, "100 samples over 1 min 38 s in 2 sessions");
}

TEST(MachineFindings, ReportsLeakOfEarlierSession) {
  const auto leak = [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * i);
    sample.processes = {process(10, "leaky", mebibytes(100 + 2 * i))};
  };
  const auto calm = [](int, SystemSample& sample) {
    sample.processes = {process(10, "leaky", mebibytes(100))};
  };
  auto findings = findings_of_sessions({{300, leak}, {100, calm}});
  ASSERT_THAT(ids(findings), ElementsAre("memory-grows"));
  EXPECT_THAT(findings[0].title,
              AllOf(HasSubstr("Memory grew steadily"), HasSubstr("most of the growth is in leaky")));
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].evidence.at(0).text, "300 samples of session 1 of 2");
  findings = findings_of_sessions({{100, calm}, {300, leak}});
  ASSERT_THAT(ids(findings), ElementsAre("memory-grows"));
  EXPECT_THAT(findings[0].title, HasSubstr("Memory grows steadily"));
  // The worse of two sessions is reported.
  const auto runs_out = [&](int i, SystemSample& sample) {
    leak(i, sample);
    sample.swap_total = Bytes{};
    *sample.ram_available = *sample.ram_available - mebibytes(8 * i);
  };
  findings = findings_of_sessions({{300, runs_out}, {300, leak}});
  ASSERT_THAT(ids(findings), testing::Contains("memory-running-out"));
  EXPECT_THAT(findings[0].title, HasSubstr("after the end of a session"));
}

// Sessions of another day, boot or machine: a difference between two sessions is not growth, and an earlier
// counter value is not a kill.
TEST(MachineFindings, DoesNotCompareAcrossSessions) {
  const auto with = [](Bytes taken, std::int64_t group_kills) {
    return [=](int i, SystemSample& sample) {
      sample.ram_available = gibibytes(8) - taken;
      sample.processes = {process(10, "python3", taken)};
      sample.cgroup = CgroupMemory{};
      sample.cgroup->limit = gibibytes(8);
      sample.cgroup->oom_kills = group_kills;
      sample.oom_kills = i == 3 ? 1 : 0;
    };
  };
  std::vector<std::pair<int, std::function<void(int, SystemSample&)>>> sessions;
  for (int i = 0; i < 6; ++i) sessions.emplace_back(120, with(gibibytes(1) + mebibytes(700 * i), 3 * i));
  const Finding finding = only("kernel-oom-kill", findings_of_sessions(sessions));
  EXPECT_EQ(finding.severity, Severity::warning) << "no kill in the group";
  EXPECT_EQ(number_figure(finding, "group_oom_kills"), 0);
  // In a session without a group, the kill may be in the own group.
  sessions.insert(sessions.begin(), {10, [](int i, SystemSample& sample) { sample.oom_kills = i == 3; }});
  EXPECT_EQ(findings_of_sessions(sessions).at(0).severity, Severity::severe);
}

TEST(MachineFindings, KeepsWorstOfManySessions) {
  std::vector<std::pair<int, std::function<void(int, SystemSample&)>>> sessions;
  for (int number = 0; number < 40; ++number)
    sessions.emplace_back(90, [number](int i, SystemSample& sample) {
      if (number == 3) *sample.ram_available = *sample.ram_available - mebibytes(4 * i);
    });
  const auto findings = findings_of_sessions(sessions);
  ASSERT_THAT(ids(findings), testing::Contains(testing::AnyOf("memory-grows", "memory-running-out")));
  EXPECT_EQ(findings[0].evidence.at(0).text, "90 samples of session 4 of 40");
}

}  // namespace
}  // namespace headroom::test
