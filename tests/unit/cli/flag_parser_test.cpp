#include <gtest/gtest.h>

#include "cli/bench_flags.h"
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

TEST(ParseFlags, TheReferencesSpellingsWork) {
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

TEST(ParseFlags, ARepeatedFlagKeepsAll) {
  const auto values = parse_flags(bench_verb(), {"--model", "a=a.onnx", "--model", "b.onnx"});
  EXPECT_EQ(values->all("model"), (std::vector<std::string>{"a=a.onnx", "b.onnx"}));
  EXPECT_EQ(values->origin("model"), "command line");
  EXPECT_EQ(values->origin("conf"), "default");
}

TEST(ParseFlags, ErrorsAreOneSentenceWithAFix) {
  EXPECT_EQ(error_of({"--max-frmes", "3"}),
            "headroom bench has no flag --max-frmes; did you mean --max-frames?");
  EXPECT_EQ(error_of({"--mem-limit", "512"}),
            "--mem-limit: size '512' has no unit: a bare number is ambiguous; write 512MiB, 512GB or 512B");
  EXPECT_EQ(error_of({"--max-frames", "0"}),
            "--max-frames 0 is out of range; give a number from 1 to 1000000000000");
  EXPECT_EQ(error_of({"--max-frames", "many"}), "--max-frames 'many' is not a whole number");
  EXPECT_EQ(error_of({"--conf", "1.5"}), "--conf 1.5 is out of range; give a number from 0 to 1");
  EXPECT_EQ(
      error_of({"--limit-mechanism", "cgrp"}),
      "--limit-mechanism 'cgrp' is not one of auto, cgroup, rlimit, watchdog, none; did you mean 'cgroup'?");
  EXPECT_EQ(error_of({"--timeout", "3 moons"}),
            "--timeout: time '3 moons' has the unknown unit 'moons'; use ns, us, ms, s, min or h");
  EXPECT_THAT(error_of({"--source"}), testing::HasSubstr("lacks its value"));
}

TEST(ParseFlags, AFileByItsNameAloneIsThePositional) {
  const auto values = parse_flags(bench_verb(), {"bench.toml", "--strict"});
  ASSERT_TRUE(values);
  EXPECT_EQ(values->positionals(), (std::vector<std::string>{"bench.toml"}));
  EXPECT_TRUE(values->toggle("strict"));
}

}  // namespace
}  // namespace headroom::cli
