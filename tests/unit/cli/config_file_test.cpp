#include "cli/config_file.h"

#include <gtest/gtest.h>

#include "cli/bench_flags.h"
#include "support/test_support.h"

namespace headroom::cli {
namespace {

Result<FlagValues> parse(const std::string& text) {
  return parse_config(bench_verb(), text, "bench.toml", "/data");
}

std::string error_of(const std::string& text) {
  const auto values = parse(text);
  return values ? "" : values.error().sentence();
}

TEST(ConfigFile, FlagsModelsSourceAndLimits) {
  const auto values = parse(
      "max_frames = 50\nconf = 0.4\ntune = true\n[source]\nvideo = \"drive.mp4\"\n[limits]\nmemory = "
      "\"2GiB\"\nstrict = true\n"
      "[[model]]\nname = \"a\"\npath = \"a.onnx\"\ntask = \"yolox\"\n[[model]]\npath = \"/abs/b.onnx\"\n");
  ASSERT_TRUE(values) << values.error().sentence();
  EXPECT_EQ(values->integer("max-frames"), 50);
  EXPECT_EQ(values->number("conf"), 0.4);
  EXPECT_TRUE(values->toggle("tune"));
  EXPECT_TRUE(values->toggle("strict"));
  EXPECT_EQ(values->text("source"), "video=/data/drive.mp4");
  EXPECT_EQ(values->text("mem-limit"), "2GiB");
  EXPECT_EQ(values->all("model"), (std::vector<std::string>{"a=/data/a.onnx,task=yolox", "b=/abs/b.onnx"}));
  EXPECT_EQ(values->origin("max-frames"), "bench.toml:1");
}

TEST(ConfigFile, ErrorsHaveTheirLine) {
  EXPECT_EQ(error_of("\nmax_frmes = 3\n"),
            "bench.toml:2: there is no setting 'max_frmes'; did you mean 'max-frames'?");
  EXPECT_THAT(error_of("conf = 7\n"), testing::HasSubstr("bench.toml:1: --conf 7 is out of range"));
  EXPECT_THAT(error_of("conf = [1, 2]\n"), testing::HasSubstr("bench.toml:1"));
  EXPECT_THAT(error_of("[[model]]\nname = \"a\"\n"), testing::HasSubstr("a model has no path"));
  EXPECT_THAT(error_of("[source]\nfolder = \"x\"\n"),
              testing::HasSubstr("bench.toml:2: there is no setting 'folder'"));
  EXPECT_THAT(error_of("[limits]\nmemory = 512\n"), testing::HasSubstr("has no unit"));
  EXPECT_THAT(error_of("a = \n"), testing::HasSubstr("this is not valid TOML"));
}

TEST(ConfigFile, WhatIsDumpedReadsBackTheSame) {
  const auto values = parse(
      "source = \"image_dir=/p \\\"q\\\"\"\nmodel = [\"a=/a.onnx\", \"b=/b.onnx\"]\nmem-limit = "
      "\"1.5GiB\"\ntune = true\niou = 0.5\n");
  ASSERT_TRUE(values) << values.error().sentence();
  const auto again = parse(to_toml(bench_verb(), *values));
  ASSERT_TRUE(again) << again.error().sentence();
  for (const Flag& flag : bench_verb().flags)
    EXPECT_EQ(again->all(flag.name), values->all(flag.name)) << flag.name;
}

TEST(ConfigFile, CharactersOutsideAsciiBelongIntoQuotesAndComments) {
  EXPECT_TRUE(parse("# größe \"x\n\noutput-dir = \"läufe\"  # ≤ ü\nprepared-dir = 'ϙ'\n"));
  EXPECT_EQ(error_of("max-frames = 3\nmaxϙframes = 1\n"),
            "bench.toml:2: this is not valid TOML: a character outside ASCII stands outside quotes; put the "
            "text into "
            "quotes");
}

TEST(ConfigFile, DeepNestingDoesNotOverflowTheStack) {
  EXPECT_NE(error_of("a = " + std::string(100'000, '[')), "");
}

}  // namespace
}  // namespace headroom::cli
