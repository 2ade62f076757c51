#include "cli/bench_flags.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/json.h"
#include "bench/setup_job.h"
#include "limits/memory_limit.h"
#include "support/test_support.h"

namespace headroom::cli {
namespace {
namespace fs = std::filesystem;

class BenchFlags : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / "images");
    test::write_text(folder_ / "images/a.jpg", "x");
    test::write_text(folder_ / "a.onnx", "x");
    test::write_text(folder_ / "b.onnx", "x");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Result<BenchOptions> options(std::vector<std::string> arguments, bool with_source = true) {
    if (with_source) arguments.insert(arguments.end(), {"--source", path("images")});
    const auto values = parse_flags(bench_verb(), arguments);
    EXPECT_TRUE(values) << (values ? "" : values.error().sentence());
    warnings_.clear();
    return bench_options_from(*values, warnings_);
  }
  std::string error_of(const std::vector<std::string>& arguments, bool with_source = true) {
    const auto made = options(arguments, with_source);
    return made ? "" : made.error().sentence();
  }
  test::TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(BenchFlags, DefaultsMatchTheOlderTools) {
  const auto made = options({"--model", path("a.onnx")});
  ASSERT_TRUE(made) << made.error().sentence();
  EXPECT_EQ(made->image_size, 640);
  EXPECT_EQ(made->confidence, 0.25);
  EXPECT_EQ(made->iou, 0.45);
  EXPECT_EQ(made->max_frames, 300);
  EXPECT_EQ(made->metrics_interval.count, 500'000'000);
  EXPECT_EQ(made->workspace, mebibytes(256));
  EXPECT_FALSE(made->memory_limit);
  EXPECT_TRUE(made->skipped_slots.empty());
}

TEST_F(BenchFlags, ModelsHaveNamesPathsBackendsAndTasks) {
  const auto made = options({"--model", "face=" + path("a.onnx") + ",task=blazeface,backend=onnxruntime",
                             "--model", path("b.onnx")});
  ASSERT_TRUE(made) << made.error().sentence();
  EXPECT_EQ(made->models[0].name, "face");
  EXPECT_EQ(made->models[0].path, path("a.onnx"));
  EXPECT_EQ(made->models[0].task, "blazeface");
  EXPECT_EQ(made->models[0].backend, "onnxruntime");
  EXPECT_EQ(made->models[1].name, "b");
}

TEST_F(BenchFlags, ThresholdsOfAModelReachTheSetup) {
  const auto made =
      options({"--model", "a=" + path("a.onnx") + ",conf=0.6,iou=0.3", "--model", path("b.onnx")});
  ASSERT_TRUE(made) << made.error().sentence();
  const auto read = bench::bench_options_from_json(bench::to_json(*made));
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(read->models[0].confidence, 0.6);
  EXPECT_EQ(read->models[0].iou, 0.3);
  EXPECT_EQ(read->models[1].confidence, std::nullopt);
  EXPECT_EQ(read->models[1].iou, std::nullopt);
}

TEST_F(BenchFlags, PrecisionAppliesToAllOrOneModel) {
  const auto made = options({"--precision", "bf16", "--model", "a=" + path("a.onnx") + ",precision=fp32",
                             "--model", path("b.onnx")});
  ASSERT_TRUE(made) << made.error().sentence();
  const auto read = bench::bench_options_from_json(bench::to_json(*made));
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(read->precision, Precision::bf16);
  EXPECT_EQ(read->models[0].precision, Precision::fp32);
  EXPECT_EQ(read->models[1].precision, Precision::automatic);
  const auto unknown = options({"--model", "a=" + path("a.onnx") + ",precision=int4"});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().sentence(), testing::HasSubstr("use fp32, fp16 or bf16"));
}

TEST_F(BenchFlags, FillsTheFourSlots) {
  const auto made = options({"--model1", path("a.onnx"), "--model3", path("b.onnx")});
  ASSERT_TRUE(made) << made.error().sentence();
  EXPECT_EQ(made->models[0].name, "yolo11s_rgb");
  EXPECT_EQ(made->models[1].name, "yolov8n_thermal");
  EXPECT_EQ(made->skipped_slots, (std::vector<std::string>{"yolo11n_rgb", "yolo11n_thermal"}));
}

TEST_F(BenchFlags, ReadsLimitsInBothSpellings) {
  EXPECT_EQ(options({"--model", path("a.onnx"), "--mem-limit", "12GiB"})->memory_limit, gibibytes(12));
  EXPECT_EQ(options({"--model", path("a.onnx"), "--gpu-mem-limit-gb", "12"})->memory_limit, gibibytes(8));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0],
            "--gpu-mem-limit-gb 12 is above the maximum of 8, so 8 GiB is used; for a larger limit, use "
            "--mem-limit (host memory) or --gpu-mem-limit (GPU memory)");
  EXPECT_EQ(options({"--model", path("a.onnx"), "--gpu_mem_limit_gb", "2.5"})->memory_limit, mebibytes(2560));
  EXPECT_TRUE(warnings_.empty());
  EXPECT_THAT(error_of({"--model", path("a.onnx"), "--mem-limit", "1GiB", "--gpu-mem-limit-gb", "1"}),
              testing::HasSubstr("keep one of them"));
}

TEST_F(BenchFlags, RejectsFlagsWithoutEffectAndUnknownBackends) {
  const std::string model = path("a.onnx");
  EXPECT_EQ(error_of({"--model", model, "--strict"}),
            "--strict has no effect without a limit; add --mem-limit SIZE, or remove --strict");
  EXPECT_THAT(error_of({"--model", model, "--limit-mechanism", "cgroup"}),
              testing::HasSubstr("--limit-mechanism has no effect without a limit"));
  EXPECT_EQ(error_of({"--model", model, "--strict", "--pool", "1GiB"}), "");
  EXPECT_EQ(error_of({"--model", model, "--strict", "--mem-limit", "1GiB", "--limit-mechanism", "rlimit"}),
            "");
  EXPECT_THAT(error_of({"--model", model, "--backend", "onnxruntme"}),
              testing::AllOf(testing::HasSubstr("unknown backend 'onnxruntme'"),
                             testing::HasSubstr("did you mean 'onnxruntime'?")));
  EXPECT_THAT(error_of({"--model", model + ",backend=tensort"}), testing::HasSubstr("unknown backend"));
}

TEST_F(BenchFlags, OneSpellingOfALimitReplacesTheOther) {
  const auto merged = [&](const std::vector<std::string>& weaker, const std::vector<std::string>& stronger) {
    auto values = parse_flags(bench_verb(), weaker);
    override_with(*values, *parse_flags(bench_verb(), stronger));
    return *values;
  };
  FlagValues values = merged({"--mem-limit", "4GiB"}, {"--gpu-mem-limit-gb", "1"});
  EXPECT_FALSE(values.has("mem-limit"));
  EXPECT_EQ(values.number("gpu-mem-limit-gb"), 1.0);
  values = merged({"--workspace-mb", "64"}, {"--workspace", "1GiB", "--strict"});
  EXPECT_FALSE(values.has("workspace-mb"));
  EXPECT_EQ(values.text("workspace"), "1GiB");
  EXPECT_TRUE(values.toggle("strict"));
  EXPECT_TRUE(merged({"--mem-limit", "4GiB"}, {"--strict"}).has("mem-limit"));
}

TEST_F(BenchFlags, WarnsAboutMoreThreadsThanCores) {
  ASSERT_TRUE(options({"--model", path("a.onnx"), "--threads", "0"}));
  EXPECT_TRUE(warnings_.empty());
  if (std::thread::hardware_concurrency() >= 512) GTEST_SKIP() << "this machine has use for 1024 threads";
  ASSERT_TRUE(options({"--model", path("a.onnx"), "--threads", "1024"}));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_.front(), testing::HasSubstr("--threads 1024 is more than twice"));
}

// The flags accept the same bounds as the limits module.
TEST_F(BenchFlags, TheSmallestMemoryLimitWorks) {
  const Flag* flag = find_flag(bench_verb(), "mem-limit");
  const Bytes smallest{static_cast<std::int64_t>(flag->minimum)};
  std::string note;
  EXPECT_TRUE(limits::make_memory_limit("smallest", smallest, "none", note));
  EXPECT_FALSE(limits::make_memory_limit("smaller", smallest - Bytes{1}, "none", note));
  EXPECT_GE(find_flag(bench_verb(), "workspace")->minimum, flag->minimum);
}

TEST_F(BenchFlags, AMissingModelDoesNotFailTheOthers) {
  fs::create_directory(folder_ / "folder.onnx");
  const auto made = options(
      {"--model", "gone=" + path("gone.onnx"), "--model", path("a.onnx"), "--model", path("folder.onnx")});
  ASSERT_TRUE(made) << made.error().sentence();
  ASSERT_EQ(made->models.size(), 3U);
  EXPECT_EQ(made->models[0].path, path("gone.onnx"));
}

TEST_F(BenchFlags, RejectsRunsWithoutAReadableModel) {
  EXPECT_EQ(error_of({"--model", "/nowhere.onnx"}),
            "the model cannot be read: /nowhere.onnx (nowhere) was not found; check the paths");
  EXPECT_EQ(error_of({"--model", path("images")}),
            "the model cannot be read: " + path("images") + " (images) is a folder; check the paths");
  EXPECT_EQ(
      error_of({"--model", "x=/nowhere.onnx", "--model0", "/gone.engine"}),
      "none of the models can be read: /nowhere.onnx (x) was not found, /gone.engine (yolo11n_rgb) was not "
      "found; check the paths");
}

TEST_F(BenchFlags, NamesAnUnknownSettingOfAModel) {
  const std::string sentence = "unknown setting 'foo' of model m; docs/bench.md lists the settings";
  EXPECT_EQ(error_of({"--model", "m=" + path("a.onnx") + ",foo=1"}), sentence);
  EXPECT_EQ(error_of({"--model", "m=" + path("a.onnx") + ",conf=0.5,foo"}), sentence);
  EXPECT_EQ(error_of({"--model", "m=" + path("gone.onnx") + ",foo=1"}),
            "the model cannot be read: " + path("gone.onnx") + ",foo=1 (m) was not found; check the paths");
}

TEST_F(BenchFlags, AcceptsAMissingSourceUntilModelsAreLoaded) {
  const auto made = options({"--model", path("a.onnx")}, false);
  ASSERT_TRUE(made) << made.error().sentence();
  EXPECT_FALSE(made->source);
}

TEST_F(BenchFlags, WrongUseIsOneSentence) {
  EXPECT_EQ(error_of({}), "no model was given; add --model NAME=PATH, or fill a slot with --model0 PATH");
  EXPECT_THAT(error_of({"--model", path("a.onnx"), "--skip-setup", "--skip-inference"}),
              testing::HasSubstr("nothing would run"));
  EXPECT_THAT(error_of({"--model", path("a.onnx"), "--task", "yolo99"}),
              testing::HasSubstr("unknown task 'yolo99'"));
}

}  // namespace
}  // namespace headroom::cli
