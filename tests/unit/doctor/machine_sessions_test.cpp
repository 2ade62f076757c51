// Logs of several sessions in sequence: all are read, and no figure is carried from one to the next.
#include "machine_samples.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
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

// Logs of one sample each: all have time 0, and only the wall clock separates them.
TEST(MachineFindings, SeparatesSessionsOfOneSample) {
  const auto at = [](std::int64_t begin) {
    return [begin](int, SystemSample& sample) {
      sample.unix_time = Nanoseconds{begin * 1'000'000'000};
      sample.oom_kills = 1;
    };
  };
  const auto findings = findings_of_sessions({{1, at(1'700'000'000)}, {1, at(1'700'000'060)}});
  ASSERT_THAT(ids(findings), ElementsAre("kernel-oom-kill"));
  EXPECT_EQ(findings[0].evidence.at(0).text, "2 samples over 1 min 00 s in 2 sessions");
  // Two samples of the same moment both count, as with tegrastats at ten lines a second.
  const auto same = findings_of_sessions({{1, at(1'700'000'000)}, {1, at(1'700'000'000)}});
  EXPECT_EQ(same.at(0).times, 2);
  EXPECT_EQ(same[0].evidence.at(0).text, "2 samples");
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
  const auto findings = findings_of_sessions(sessions);
  ASSERT_THAT(ids(findings), ElementsAre("kernel-oom-kill"));
  EXPECT_EQ(findings[0].severity, Severity::warning) << "no kill in the group";
  EXPECT_EQ(number_figure(findings[0], "group_oom_kills"), 0);
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
