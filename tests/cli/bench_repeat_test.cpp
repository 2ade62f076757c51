// headroom bench --repeat: several runs with one command, each in its own folder.
#include <unistd.h>

#include <filesystem>
#include <future>

#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using BenchRepeat = BenchTest;

std::size_t runs_of(const Bench& bench) {
  const fs::path outputs = bench.path() / "outputs";
  std::size_t runs = 0;
  for (const auto& entry : fs::directory_iterator(outputs)) runs += fs::exists(entry.path() / "report.json");
  return runs;
}

TEST_F(BenchRepeat, ContinuesWithTheNextRunAfterAFailure) {
  EXPECT_THAT(run_without_source({"--model", model("m", "run crash"), "--repeat", "2"}), Ends(1));
  EXPECT_EQ(runs_of(bench_), 2U);
}

// The third run of one command is paired with the third run of the other.
TEST_F(BenchRepeat, PairsRepeatedRunsInStepInOrder) {
  Bench a, b;
  const std::string name = "repeat-" + std::to_string(::getpid());
  const auto start = [&](Bench& bench) {
    return std::async(std::launch::async, [&bench, &name] {
      return bench.run({"--backend", "misbehaving", "--model", "m=" + bench.model("m", ""), "--in-step", name,
                        "--repeat", "3", "--max-frames", "40"});
    });
  };
  auto one = start(a), two = start(b);
  const CommandResult first = one.get(), second = two.get();
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("run 1 of 3"), HasSubstr("run 3 of 3")));
  EXPECT_EQ(runs_of(a), 3U);
  EXPECT_EQ(model_of(a.report(), "m")["in_step"]["id"], model_of(b.report(), "m")["in_step"]["id"]);
  const std::string of_a = (a.path() / "outputs").string(), of_b = (b.path() / "outputs").string();
  const CommandResult diff = run_headroom({"diff", "--json", of_a, of_b});
  ASSERT_THAT(diff, Ends(0));
  Json compared = json_of(diff)["models"][0];
  EXPECT_EQ(compared["runs_before"], 3);
  EXPECT_EQ(compared["runs_after"], 3);
  for (const Json& metric : compared["metrics"])
    EXPECT_EQ(get_text(metric, "spread") == "in_step", get_text(metric, "name") == "latency")
        << metric.dump();
  EXPECT_THAT(run_headroom({"diff", of_a, of_b}).out, HasSubstr("compared over 3 pairs of runs in step"));
}

TEST_F(BenchRepeat, RejectsOptionsThatCannotBeRepeated) {
  const auto refused = [&](const Words& words) {
    const CommandResult result = run_without_source(joined({words, {"--model", model("m", "")}}));
    EXPECT_THAT(result, Ends(2));
    return result.err;
  };
  EXPECT_THAT(refused({"--repeat", "0"}), HasSubstr("--repeat"));
  EXPECT_THAT(refused({"--repeat", "many"}), HasSubstr("--repeat"));
  EXPECT_THAT(refused({"--repeat", "2", "--json"}), HasSubstr("--repeat and --json cannot be combined"));
}

}  // namespace
}  // namespace headroom::test
