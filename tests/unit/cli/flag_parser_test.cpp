#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/bench_flags.h"
#include "cli/environment.h"
#include "cli/flag_table.h"
#include "support/test_support.h"

namespace headroom::cli {
namespace {

std::string error_of(const std::vector<std::string>& arguments) {
  const auto values = parse_flags(bench_verb(), arguments);
  return values ? "" : values.error().sentence();
}

TEST(ParseFlags, DashesAndUnderscoresAreTheSameFlag) {
  for (const char* flag : {"--max-frames", "--max_frames"}) {
    const auto values = parse_flags(bench_verb(), {flag, "7"});
    ASSERT_TRUE(values) << values.error().sentence();
    EXPECT_EQ(values->integer("max-frames"), 7);
  }
  EXPECT_EQ(parse_flags(bench_verb(), {"--max-frames=9"})->integer("max-frames"), 9);
}

TEST(ParseFlags, AcceptsSpellingsOfOlderTools) {
  const auto values = parse_flags(bench_verb(), {"--enable_cudnn_tuning",
                                                 "--gpu_mem_limit_gb",
                                                 "4",
                                                 "--workspace_mb",
                                                 "128",
                                                 "--max_frames_in_mem",
                                                 "300",
                                                 "--preprocessed_dir",
                                                 "p",
                                                 "--out_dir",
                                                 "o",
                                                 "--skip_setup",
                                                 "--metrics_interval",
                                                 "0.5",
                                                 "--limit_videos",
                                                 "5",
                                                 "--limit_objects",
                                                 "1",
                                                 "--output_dir",
                                                 "q"});
  ASSERT_TRUE(values) << values.error().sentence();
  EXPECT_TRUE(values->toggle("tune"));
  EXPECT_TRUE(values->toggle("skip-setup"));
  EXPECT_EQ(values->text("prepared-dir"), "p");
  EXPECT_EQ(values->text("output-dir"), "q") << "the last one wins";
  EXPECT_EQ(values->number("gpu-mem-limit-gb"), 4.0);
}

TEST(ParseFlags, ARepeatedFlagKeepsAllValues) {
  const auto values = parse_flags(bench_verb(), {"--model", "a=a.onnx", "--model", "b.onnx"});
  EXPECT_EQ(values->all("model"), (std::vector<std::string>{"a=a.onnx", "b.onnx"}));
  EXPECT_EQ(values->origin("model"), "command line");
  EXPECT_EQ(values->origin("conf"), "default");
}

TEST(ParseFlags, ErrorsAreOneSentenceWithAFix) {
  EXPECT_EQ(error_of({"--max-frmes", "3"}),
            "headroom bench: unknown flag --max-frmes; did you mean --max-frames?");
  EXPECT_EQ(error_of({"--mem-limit", "512"}),
            "--mem-limit: size '512' has no unit: a bare number is ambiguous; write 512MiB, 512GB or 512B");
  EXPECT_EQ(error_of({"--max-frames", "0"}),
            "--max-frames 0 is out of range; give a number from 1 to 1000000000000");
  EXPECT_EQ(error_of({"--max-frames", "many"}),
            "--max-frames 'many' is not a whole number; write --max-frames N");
  EXPECT_EQ(error_of({"--conf", "1.5"}), "--conf 1.5 is out of range; give a number from 0 to 1");
  EXPECT_EQ(
      error_of({"--limit-mechanism", "cgrp"}),
      "--limit-mechanism 'cgrp' is not one of auto, cgroup, rlimit, watchdog, none; did you mean 'cgroup'?");
  EXPECT_EQ(error_of({"--timeout", "3 moons"}),
            "--timeout: time '3 moons' has the unknown unit 'moons'; use ns, us, ms, s, min or h");
  EXPECT_EQ(error_of({"--source"}), "--source needs a value: --source SRC");
}

TEST(ParseFlags, DurationsAndSizesHaveBounds) {
  EXPECT_EQ(error_of({"--timeout", "0"}), "--timeout 0 is out of range; give a time from 1s to 720h");
  for (const char* timeout : {"1ms", "1e9", "721h"})
    EXPECT_NE(error_of({"--timeout", timeout}), "") << timeout;
  for (const char* timeout : {"1", "1s", "720h"}) EXPECT_EQ(error_of({"--timeout", timeout}), "") << timeout;
  EXPECT_EQ(error_of({"--metrics-interval", "0"}),
            "--metrics-interval 0 is out of range; give a time from 10ms to 1h");
  EXPECT_EQ(error_of({"--metrics-interval", "10ms"}), "");
  EXPECT_EQ(error_of({"--workspace", "1MiB"}),
            "--workspace 1MiB is out of range; give a size from 32.0 MiB to 64.00 TiB");
  EXPECT_THAT(error_of({"--mem-limit", "1KiB"}), testing::HasSubstr("--mem-limit 1KiB is out of range"));
  EXPECT_THAT(error_of({"--gpu-mem-limit-gb", "0"}),
              testing::HasSubstr("out of range; give a number at least"));
  EXPECT_THAT(error_of({"--threads", "1025"}), testing::HasSubstr("from 0 to 1024"));
}

TEST(ParseFlags, ChecksBoundsInTheEnvironment) {
  ASSERT_EQ(::setenv("HEADROOM_TIMEOUT", "0", 1), 0);
  std::vector<std::string> unknown;
  const auto values = read_environment(bench_verb(), unknown);
  ::unsetenv("HEADROOM_TIMEOUT");
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().sentence(),
            "HEADROOM_TIMEOUT: --timeout 0 is out of range; give a time from 1s to 720h");
}

TEST(ParseFlags, AFileNameAloneIsThePositional) {
  const auto values = parse_flags(bench_verb(), {"bench.toml", "--strict"});
  ASSERT_TRUE(values);
  EXPECT_EQ(values->positionals(), (std::vector<std::string>{"bench.toml"}));
  EXPECT_TRUE(values->toggle("strict"));
}

}  // namespace
}  // namespace headroom::cli
