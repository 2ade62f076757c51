#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/bench_flags.h"
#include "cli/flag_table.h"
#include "support/test_support.h"

namespace headroom::cli {
namespace {

Result<FlagValues> parse(const std::string& words) {
  std::vector<std::string> arguments;
  for (const std::string_view word : split_words(words)) arguments.emplace_back(word);
  return parse_flags(bench_verb(), arguments);
}

std::string error_of(const std::vector<std::string>& arguments) {
  const auto values = parse_flags(bench_verb(), arguments);
  return values ? "" : values.error().sentence();
}

TEST(ParseFlags, DashesAndUnderscoresAreTheSameFlag) {
  for (const char* words : {"--max-frames 7", "--max_frames 7", "--max-frames=7"})
    EXPECT_EQ(parse(words)->integer("max-frames"), 7) << words;
}

TEST(ParseFlags, AcceptsSpellingsOfOlderTools) {
  const auto values = parse(
      "--enable_cudnn_tuning --gpu_mem_limit_gb 4 --workspace_mb 128 --max_frames_in_mem 300 "
      "--preprocessed_dir p --out_dir o --skip_setup --metrics_interval 0.5 --limit_videos 5 "
      "--limit_objects 1 --output_dir q");
  ASSERT_TRUE(values) << values.error().sentence();
  EXPECT_TRUE(values->toggle("tune"));
  EXPECT_TRUE(values->toggle("skip-setup"));
  EXPECT_EQ(values->text("prepared-dir"), "p");
  EXPECT_EQ(values->text("output-dir"), "q") << "the last one wins";
  EXPECT_EQ(values->number("gpu-mem-limit-gb"), 4.0);
}

TEST(ParseFlags, ARepeatedFlagKeepsAllValues) {
  const auto values = parse("--model a=a.onnx --model b.onnx");
  EXPECT_EQ(values->all("model"), (std::vector<std::string>{"a=a.onnx", "b.onnx"}));
  EXPECT_EQ(values->origin("model"), "command line");
  EXPECT_EQ(values->origin("conf"), "default");
}

TEST(ParseFlags, ErrorsAreOneSentenceWithAFix) {
  struct Case {
    std::vector<std::string> arguments;
    std::string error;
  };
  const Case cases[] = {
      {{"--max-frmes", "3"}, "headroom bench: unknown flag --max-frmes; did you mean --max-frames?"},
      {{"--mem-limit", "512"},
       "--mem-limit: size '512' has no unit: a bare number is ambiguous; write 512MiB, 512GB or 512B"},
      {{"--max-frames", "0"}, "--max-frames 0 is out of range; give a number from 1 to 1000000000000"},
      {{"--max-frames", "many"}, "--max-frames 'many' is not a whole number; write --max-frames N"},
      {{"--conf", "1.5"}, "--conf 1.5 is out of range; give a number from 0 to 1"},
      {{"--limit-mechanism", "cgrp"},
       "--limit-mechanism 'cgrp' is not one of auto, cgroup, rlimit, watchdog, none; did you mean 'cgroup'?"},
      {{"--timeout", "3 moons"},
       "--timeout: time '3 moons' has the unknown unit 'moons'; use ns, us, ms, s, min or h"},
      {{"--source"}, "--source needs a value: --source SRC"},
      {{"--timeout", "0"}, "--timeout 0 is out of range; give a time from 1s to 720h"},
      {{"--metrics-interval", "0"}, "--metrics-interval 0 is out of range; give a time from 10ms to 1h"},
      {{"--metrics-interval", "10ms"}, ""},
      {{"--workspace", "1MiB"}, "--workspace 1MiB is out of range; give a size from 32.0 MiB to 64.00 TiB"},
      {{"--mem-limit", "1KiB"}, "--mem-limit 1KiB is out of range; give a size from 8.0 MiB to 64.00 TiB"},
      {{"--gpu-mem-limit-gb", "0"}, "--gpu-mem-limit-gb 0 is out of range; give a number at least 0.01"},
      {{"--threads", "1025"}, "--threads 1025 is out of range; give a number from 0 to 1024"},
  };
  for (const Case& each : cases) EXPECT_EQ(error_of(each.arguments), each.error);
  for (const char* timeout : {"1ms", "1e9", "721h"})
    EXPECT_NE(error_of({"--timeout", timeout}), "") << timeout;
  for (const char* timeout : {"1", "1s", "720h"}) EXPECT_EQ(error_of({"--timeout", timeout}), "") << timeout;
}

TEST(ParseFlags, AFileNameAloneIsThePositional) {
  const auto values = parse("bench.toml --strict");
  ASSERT_TRUE(values);
  EXPECT_EQ(values->positionals(), (std::vector<std::string>{"bench.toml"}));
  EXPECT_TRUE(values->toggle("strict"));
}

}  // namespace
}  // namespace headroom::cli
