// Leak verdicts for a real program, from the trace to the report.
#include <gmock/gmock.h>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {

Json leaks_of(const std::string& mode, const std::vector<std::string>& flags) {
  const TemporaryFolder folder;
  CommandOptions options;
  options.folder = folder.path();
  run_headroom(
      joined({{"trace", "--out", "a.hrec"}, flags, {"--", test::built_path("tests/traced_cycles"), mode}}),
      options);
  const CommandResult report = run_headroom({"report", "a.hrec", "--json"}, options);
  EXPECT_THAT(report, Ends(0));
  return json_of(report)["leaks"];
}

// Also in default mode: the blocks are large enough to be recorded individually.
class TraceLeaks : public testing::TestWithParam<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Modes, TraceLeaks,
                         testing::Values(std::vector<std::string>{"--full"}, std::vector<std::string>{}));

TEST_P(TraceLeaks, JudgesWhatEachCycleKeeps) {
  const Json kept = leaks_of("kept", GetParam());
  EXPECT_EQ(kept["verdict"], "leak");
  EXPECT_EQ(kept["bytes_per_cycle"], 10'000);
  EXPECT_FALSE(kept.contains("cut_off"));
  const Json half = leaks_of("half released", GetParam());
  EXPECT_EQ(half["verdict"], "leak");
  EXPECT_EQ(half["released_bytes"], 250'000);
  EXPECT_EQ(half["stacks"][0]["end_bytes"], 250'000);
  const Json released = leaks_of("released", GetParam());
  EXPECT_EQ(released["verdict"], "grew_then_released");
  EXPECT_EQ(released["bytes_per_cycle"], 10'000);
  EXPECT_GT(released["released_seconds"], 0);
  EXPECT_EQ(released["stacks"][0]["end_bytes"], 0);
  const Json late = leaks_of("last thirty", GetParam());  // a container that fills late
  EXPECT_EQ(late["verdict"], "grew_late");
  EXPECT_EQ(late["last_step_cycle"], 30);
  const Json killed = leaks_of("killed", GetParam());  // which hides later releases
  EXPECT_EQ(killed["verdict"], "leak");
  EXPECT_EQ(killed["cut_off"], true);
}

}  // namespace
}  // namespace headroom::test
