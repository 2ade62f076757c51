// Leak verdicts for a real program, from the trace to the report.
#include <gmock/gmock.h>

#include "cli/command.h"

namespace headroom::test {
namespace {

Json leaks_of(const std::string& mode, const std::vector<std::string>& flags) {
  const TemporaryFolder folder;
  CommandOptions options;
  options.folder = folder.path();
  std::vector<std::string> trace{"trace", "--out", "a.hrec"};
  trace.insert(trace.end(), flags.begin(), flags.end());
  trace.insert(trace.end(), {"--", test::built_path("tests/traced_cycles"), mode});
  run_headroom(trace, options);
  const CommandResult report = run_headroom({"report", "a.hrec", "--json"}, options);
  EXPECT_EQ(report.exit_code, 0) << report.err;
  const auto json = parse_json(report.out);
  EXPECT_TRUE(json.has_value());
  return json ? (*json)["leaks"] : Json();
}

// Also in default mode: the blocks are large enough to be recorded individually.
class TraceLeaks : public testing::TestWithParam<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Modes, TraceLeaks,
                         testing::Values(std::vector<std::string>{"--full"}, std::vector<std::string>{}));

TEST_P(TraceLeaks, FindsResultsThatAreNeverReleased) {
  const Json leaks = leaks_of("kept", GetParam());
  EXPECT_EQ(leaks["verdict"], "leak");
  EXPECT_EQ(leaks["bytes_per_cycle"], 10'000);
  EXPECT_FALSE(leaks.contains("cut_off"));
}

TEST_P(TraceLeaks, AcceptsResultsReleasedAfterTheLastCycle) {
  const Json leaks = leaks_of("released", GetParam());
  EXPECT_EQ(leaks["verdict"], "grew_then_released");
  EXPECT_EQ(leaks["bytes_per_cycle"], 10'000);
  EXPECT_GT(leaks["released_seconds"], 0);
  EXPECT_EQ(leaks["stacks"][0]["end_bytes"], 0);
}

TEST_P(TraceLeaks, FindsResultsOfWhichHalfAreReleased) {
  const Json leaks = leaks_of("half released", GetParam());
  EXPECT_EQ(leaks["verdict"], "leak");
  EXPECT_EQ(leaks["released_bytes"], 250'000);
  EXPECT_EQ(leaks["stacks"][0]["end_bytes"], 250'000);
}

TEST_P(TraceLeaks, KillHidesLaterReleases) {
  const Json leaks = leaks_of("killed", GetParam());
  EXPECT_EQ(leaks["verdict"], "leak");
  EXPECT_EQ(leaks["cut_off"], true);
}

TEST_P(TraceLeaks, AcceptsAContainerThatFillsLate) {
  const Json leaks = leaks_of("last thirty", GetParam());
  EXPECT_EQ(leaks["verdict"], "grew_late");
  EXPECT_EQ(leaks["last_step_cycle"], 30);
}

}  // namespace
}  // namespace headroom::test
