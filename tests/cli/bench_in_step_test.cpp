// Two bench runs that measure frame by frame in turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <future>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {

using testing::HasSubstr;

constexpr const char* kFaceModel = "models/face_detection_front_128x128_barracuda.onnx";

std::string own_name(const char* of) { return std::string("cli-") + of + "-" + std::to_string(::getpid()); }

std::future<CommandResult> start(Bench& bench, std::vector<std::string> arguments,
                                 CommandOptions options = {}) {
  return std::async(std::launch::async, [&bench, arguments = std::move(arguments), options] {
    return bench.run(arguments, options);
  });
}

std::vector<std::string> misbehaving(Bench& bench, const std::string& commands, const std::string& name) {
  return {"--backend", "misbehaving", "--model", "m=" + bench.model("m", commands), "--warmup", "1",
          "--in-step", name,          "--quiet"};
}

TEST(BenchInStep, MeasuresTwoRunsInTurns) {
  const auto face = dependency_file(kFaceModel);
  if (!face) GTEST_SKIP() << absent_message("the face model");
  Bench a, b;
  const std::vector<std::string> arguments{
      "--model", "face=" + face->string(), "--task", "none",      "--threads",
      "1",       "--max-frames",           "120",    "--in-step", own_name("pair")};
  auto one = start(a, arguments), two = start(b, arguments);
  const CommandResult first = one.get(), second = two.get();
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.err, HasSubstr("waiting for the other run"));
  const Json of_a = model_of(a.report(), "face")["in_step"], of_b = model_of(b.report(), "face")["in_step"];
  EXPECT_EQ(of_a["id"], of_b["id"]);
  EXPECT_EQ(of_a["frames"], 120);
  EXPECT_EQ(of_b["frames"], 120);
  EXPECT_EQ(of_a["one_processor"], of_b["one_processor"]);
  EXPECT_THAT(model_of(a.report(), "face")["warnings"].dump(),
              HasSubstr("took turns with those of another run"));
  EXPECT_EQ(a.report()["options"]["in_step"], own_name("pair"));
  const CommandResult diff = run_headroom({"diff", a.run_folder().string(), b.run_folder().string()});
  EXPECT_THAT(diff.out, HasSubstr("not separable from noise with one run each"));
}

// The partner has fewer frames, or crashes.
TEST(BenchInStep, ContinuesAloneWhenThePartnerEnds) {
  for (const bool crashes : {false, true}) {
    Bench a, b;
    const std::string name = own_name(crashes ? "crash" : "fewer");
    const char* commands = crashes ? "run crash_after 12\n" : "";
    auto one = start(a, joined({misbehaving(a, commands, name), {"--max-frames", crashes ? "90" : "40"}}));
    auto two = start(b, joined({misbehaving(b, "", name), {"--max-frames", "90"}}));
    EXPECT_EQ(one.get().exit_code, crashes ? 1 : 0);
    EXPECT_EQ(two.get().exit_code, 0);
    const Json longer = model_of(b.report(), "m");
    EXPECT_EQ(longer["status"], "ok");
    EXPECT_EQ(longer["frames"], 90);
    if (crashes) continue;
    EXPECT_EQ(model_of(a.report(), "m")["in_step"]["frames"], 40);
    EXPECT_LE(longer["in_step"]["frames"], 41);
    EXPECT_THAT(longer["warnings"].dump(), HasSubstr("of 90 frames were measured in step"));
  }
}

TEST(BenchInStep, MeasuresAloneWhenThePartnerHasNoWorkingModel) {
  Bench a, b;
  const std::string name = own_name("fails");
  auto one = start(a, misbehaving(a, "load fail\n", name));
  auto two = start(b, misbehaving(b, "", name));
  EXPECT_EQ(one.get().exit_code, 1);
  EXPECT_THAT(two.get(), Ends(0));
  EXPECT_THAT(b.report()["warnings"].dump(),
              HasSubstr("ended before anything was measured; this run is measured without turns"));
  EXPECT_FALSE(model_of(b.report(), "m").contains("in_step"));
  const CommandResult diff = run_headroom({"diff", a.run_folder().string(), b.run_folder().string()});
  EXPECT_THAT(diff.out, HasSubstr("B is better"));
}

TEST(BenchInStep, StopsWaitingForAPartnerAtTimeoutOrInterrupt) {
  Bench a;
  const CommandResult alone = a.run(joined({misbehaving(a, "", own_name("alone")), {"--timeout", "1s"}}));
  EXPECT_THAT(alone, IsRefused(HasSubstr("no other run with that name started within 1.000 s")));
  EXPECT_TRUE(a.run_folder().empty());
  CommandOptions options;
  options.while_running = [calls = 0](int pid) mutable {
    if (++calls < 25) return true;  // half a second
    ::kill(pid, SIGINT);
    return false;
  };
  EXPECT_THAT(a.run(misbehaving(a, "", own_name("stopped")), options), Ends(130));
}

TEST(BenchInStep, RejectsOtherTimedRuns) {
  Bench a;
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--parallel"}, {"--pipeline"}, {"--tune"}, {"--pool", "64MiB"}, {"--skip-inference"}}) {
    EXPECT_THAT(a.run(joined({misbehaving(a, "", "x"), more})),
                IsRefused(HasSubstr("--in-step cannot be combined with " + more[0])));
  }
  EXPECT_THAT(a.run(misbehaving(a, "", "a/b")), IsRefused(HasSubstr("invalid name 'a/b' for --in-step")));
}

}  // namespace
}  // namespace headroom::test
