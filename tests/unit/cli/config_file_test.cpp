#include "cli/bench_flags.h"

#include <gtest/gtest.h>

#include "support/test_support.h"

namespace headroom::cli {
namespace {

Result<FlagValues> parse(const std::string& text) { return parse_config(text, "bench.toml", "/data"); }

std::string config_error_of(const std::string& text) {
  const auto values = parse(text);
  return values ? "" : values.error().sentence();
}

TEST(ConfigFile, ReadsFlagsModelsSourceAndLimits) {
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

TEST(ConfigFile, ErrorsNameTheLine) {
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"\nmax_frmes = 3\n", "bench.toml:2: there is no setting 'max_frmes'; did you mean 'max-frames'?"},
           {"conf = 7\n", "bench.toml:1: --conf 7 is out of range"},
           {"conf = [1, 2]\n", "bench.toml:1: 'conf' cannot be a table, list or date"},
           {"[[model]]\nname = \"a\"\n", "bench.toml:1: model.path is missing"},
           {"[source]\nfolder = \"x\"\n", "bench.toml:2: there is no setting 'folder'"},
           {"[limits]\nmemory = 512\n", "has no unit"},
           {"[limits]\nmax-frames = 3\n", "bench.toml:2: there is no setting 'max-frames'"},
           {"a = \n", "bench.toml:1: this is not valid TOML"},
           {"conf = \"0.6\"\n", "bench.toml:1: 'conf' must be a number; remove the quotes"},
           {"max-frames = \"6\"\n", "bench.toml:1: 'max-frames' must be a whole number; remove the quotes"},
           {"strict = \"true\"\n", "bench.toml:1: 'strict' must be true or false; remove the quotes"},
           {"max-frames = 3\nmax_frames = 4\n",
            "bench.toml:2: 'max-frames' is set twice; remove this one or the one at bench.toml:1"},
           {"tune = true\nenable-cudnn-tuning = true\n", "'tune' is set twice"},
           {"mem-limit = \"1GiB\"\n[limits]\nmemory = \"2GiB\"\n", "'mem-limit' is set twice"},
           {"timeout = 0\n", "bench.toml:1: --timeout 0 is out of range"}})
    EXPECT_THAT(config_error_of(text), testing::HasSubstr(error)) << text;
}

TEST(ConfigFile, AModelInOneStringMayHaveSettingsAndNoName) {
  const auto values = parse("model = [\"m.onnx,conf=0.9\", \"n=n.onnx,conf=0.8\"]\n");
  ASSERT_TRUE(values) << values.error().sentence();
  EXPECT_EQ(values->all("model"),
            (std::vector<std::string>{"m=/data/m.onnx,conf=0.9", "n=/data/n.onnx,conf=0.8"}));
}

TEST(ConfigFile, ReadsThresholdsPerModel) {
  const auto values = parse(
      "[[model]]\npath = \"/a.onnx\"\nconf = 0.6\niou = 1\ntask = \"yolox\"\n[[model]]\npath = "
      "\"/b.onnx\"\n");
  ASSERT_TRUE(values) << values.error().sentence();
  EXPECT_EQ(values->all("model"),
            (std::vector<std::string>{"a=/a.onnx,task=yolox,conf=0.6,iou=1", "b=/b.onnx"}));
  const std::string model = "[[model]]\npath = \"a.onnx\"\n";
  EXPECT_EQ(parse(model + "every = 5\n")->all("model"), (std::vector<std::string>{"a=/data/a.onnx,every=5"}));
  EXPECT_EQ(parse(model + "isolated = true\n")->all("model"),
            (std::vector<std::string>{"a=/data/a.onnx,isolated=on"}));
  for (const auto& [line, accepted] :
       {std::pair{"isolated = 1",
                  "true or false; isolated=on runs the model in a separate process in --pool"},
        {"conf = \"0.6\"", "a number from 0 to 1"},
        {"precision = \"int8\"", "fp32, fp16 or bf16"}}) {
    const std::string key = std::string(line).substr(0, std::string_view(line).find(' '));
    EXPECT_EQ(config_error_of(model + line + "\n"),
              "bench.toml:3: invalid value of 'model." + key + "'; use " + accepted);
  }
  EXPECT_THAT(config_error_of(model + "thread = 2\n"),
              testing::HasSubstr("bench.toml:3: there is no setting 'thread'"));
  const auto set = parse(model + "arena = false\nextend = \"same_as_requested\"\nthreads = 2\n");
  ASSERT_TRUE(set) << set.error().sentence();
  EXPECT_EQ(set->all("model"),
            (std::vector<std::string>{"a=/data/a.onnx,arena=off,extend=same_as_requested,threads=2"}));
  EXPECT_THAT(config_error_of(model + "name = \"../x\"\n"),
              testing::HasSubstr("bench.toml:3: invalid model name '../x'"));
}

TEST(ConfigFile, LimitsAcceptAllSpellingsOfTheFlags) {
  const auto values = parse(
      "[limits]\ngpu-mem-limit-gb = 2\nworkspace_mb = 64\ntimeout = \"30s\"\nlimit-mechanism = \"rlimit\"\n");
  ASSERT_TRUE(values) << values.error().sentence();
  EXPECT_EQ(values->number("gpu-mem-limit-gb"), 2.0);
  EXPECT_EQ(values->number("workspace-mb"), 64.0);
  EXPECT_EQ(values->text("timeout"), "30s");
  EXPECT_EQ(values->text("limit-mechanism"), "rlimit");
}

TEST(ConfigFile, DumpsValidToml) {
  const auto typed =
      parse_flags(bench_verb(), {"--conf", ".5", "--max-frames", "007", "--iou", "1e-2", "--strict",
                                 "--gpu-mem-limit-gb", "2.", "--output-dir", "a\x7f\"b"});
  ASSERT_TRUE(typed) << typed.error().sentence();
  const std::string dumped = to_toml(*typed);
  const auto again = parse(dumped);
  ASSERT_TRUE(again) << again.error().sentence() << dumped;
  EXPECT_EQ(again->number("conf"), 0.5);
  EXPECT_EQ(again->integer("max-frames"), 7);
  EXPECT_EQ(again->number("iou"), 0.01);
  EXPECT_EQ(again->number("gpu-mem-limit-gb"), 2.0);
  EXPECT_TRUE(again->toggle("strict"));
  EXPECT_EQ(again->text("output-dir"), "a\x7f\"b");
}

TEST(ConfigFile, ADumpHasNoRelativePath) {
  const std::string here = std::filesystem::current_path().string();
  auto values =
      parse_flags(bench_verb(), {"--source", "image_dir=pictures", "--model", "nets/a.onnx,conf=0.9",
                                 "--model", "b=b.onnx", "--model0", "../c.onnx", "--output-dir", "out"});
  ASSERT_TRUE(values) << values.error().sentence();
  make_paths_absolute(*values);
  EXPECT_EQ(values->text("source"), "image_dir=" + here + "/pictures");
  EXPECT_THAT(values->all("model"),
              testing::ElementsAre("a=" + here + "/nets/a.onnx,conf=0.9", "b=" + here + "/b.onnx"));
  EXPECT_EQ(values->text("model0"), (std::filesystem::path(here).parent_path() / "c.onnx").string());
  EXPECT_EQ(values->text("output-dir"), here + "/out");
  const auto again = parse(to_toml(*values));
  ASSERT_TRUE(again) << again.error().sentence();
  for (const Flag& flag : bench_verb().flags)
    EXPECT_EQ(again->all(flag.name), values->all(flag.name)) << flag.name;
  auto camera = parse_flags(bench_verb(), {"--source", "camera=0"});
  make_paths_absolute(*camera);
  EXPECT_EQ(camera->text("source"), "camera=0");
}

TEST(ConfigFile, AcceptsNonAsciiOnlyInQuotesAndComments) {
  const auto values = parse(
      "\xEF\xBB\xBF# größe \"x\n\noutput-dir = \"läufe\"  # ≤ ü\nprepared-dir = 'ϙ😀'\n"
      "source = \"\"\"\\\n   ö\\u00e9\"\"\"\n");
  ASSERT_TRUE(values) << values.error().sentence();
  EXPECT_EQ(values->text("output-dir"), "läufe");
  EXPECT_EQ(values->text("prepared-dir").substr(0, 6), "ϙ😀");
  EXPECT_THAT(values->text("source"), testing::EndsWith("öé"));
  const std::string stray = config_error_of("max-frames = 3\nmaxϙframes = 1\n");
  EXPECT_THAT(stray, testing::StartsWith("bench.toml:2: this is not valid TOML: "));
  EXPECT_THAT(stray, testing::HasSubstr("'ϙ'"));
  EXPECT_THAT(config_error_of("läufe = 1\n"), testing::HasSubstr("'ä'"));
  EXPECT_THAT(config_error_of("output-dir = \"l\xC3\"\n"), testing::HasSubstr("invalid utf-8"));
}

}  // namespace
}  // namespace headroom::cli
