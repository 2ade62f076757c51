#include "cli/bench_flags.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/json.h"
#include "bench/protocol.h"
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
  Result<BenchOptions> options(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--source", path("images")});
    const auto values = parse_flags(bench_verb(), arguments);
    EXPECT_TRUE(values) << (values ? "" : values.error().sentence());
    warnings_.clear();
    return bench_options_from(*values, warnings_);
  }
  std::string error_of(const std::vector<std::string>& arguments) {
    const auto made = options(arguments);
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

TEST_F(BenchFlags, SettingsOfAModelReachTheSetup) {
  const auto made =
      options({"--precision", "bf16", "--model", "a=" + path("a.onnx") + ",conf=0.6,iou=0.3,precision=fp32",
               "--model", path("b.onnx")});
  ASSERT_TRUE(made) << made.error().sentence();
  const auto read = bench::bench_options_from_json(bench::to_json(*made));
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(read->models[0].confidence, 0.6);
  EXPECT_EQ(read->models[0].iou, 0.3);
  EXPECT_EQ(read->models[1].name, "b");
  EXPECT_EQ(read->models[1].confidence, std::nullopt);
  EXPECT_EQ(read->models[1].iou, std::nullopt);
  EXPECT_EQ(read->precision, Precision::bf16);
  EXPECT_EQ(read->models[0].precision, Precision::fp32);
  EXPECT_EQ(read->models[1].precision, Precision::automatic);
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

TEST_F(BenchFlags, WrongUseIsOneSentence) {
  const std::string model = path("a.onnx"), gone = path("gone.onnx");
  const std::string unknown_setting = "unknown setting 'foo' of model m; docs/bench.md lists the settings";
  struct Case {
    std::vector<std::string> arguments;
    std::string error;
  };
  const Case cases[] = {
      {{}, "no model was given; add --model NAME=PATH, or fill a slot with --model0 PATH"},
      {{"--model", model, "--skip-setup", "--skip-inference"}, "nothing would run"},
      {{"--model", model, "--task", "yolo99"}, "unknown task 'yolo99'"},
      {{"--model", model, "--strict"},
       "--strict has no effect without a limit; add --mem-limit SIZE, or remove --strict"},
      {{"--model", model, "--limit-mechanism", "cgroup"}, "--limit-mechanism has no effect without a limit"},
      {{"--model", model, "--backend", "onnxruntme"}, "unknown backend 'onnxruntme'"},
      {{"--model", model, "--backend", "onnxruntme"}, "did you mean 'onnxruntime'?"},
      {{"--model", model + ",backend=tensort"}, "unknown backend"},
      {{"--model", "/nowhere.onnx"},
       "the model cannot be read: /nowhere.onnx (nowhere) was not found; check the paths"},
      {{"--model", path("images")},
       "the model cannot be read: " + path("images") + " (images) is a folder; check the paths"},
      {{"--model", "x=/nowhere.onnx", "--model0", "/gone.engine"},
       "none of the models can be read: /nowhere.onnx (x) was not found, /gone.engine (yolo11n_rgb) was not "
       "found; check the paths"},
      {{"--model", "m=" + model + ",foo=1"}, unknown_setting},
      {{"--model", "m=" + model + ",conf=0.5,foo"}, unknown_setting},
      {{"--model", "m=" + gone + ",foo=1"},
       "the model cannot be read: " + gone + ",foo=1 (m) was not found; check the paths"},
  };
  for (const Case& each : cases) EXPECT_THAT(error_of(each.arguments), testing::HasSubstr(each.error));
  EXPECT_EQ(error_of({"--model", model, "--strict", "--pool", "1GiB"}), "");
  EXPECT_EQ(error_of({"--model", model, "--strict", "--mem-limit", "1GiB", "--limit-mechanism", "rlimit"}),
            "");
}

class VosFlags : public BenchFlags {
 protected:
  void SetUp() override {
    BenchFlags::SetUp();
    for (const char* model : {"weights/sam2_base", "weights/edgetam"})
      fs::create_directories(folder_ / model);
  }
  Result<BenchOptions> vos_options(const std::vector<std::string>& arguments) {
    const auto values = parse_flags(bench_verb(), arguments);
    EXPECT_TRUE(values) << (values ? "" : values.error().sentence());
    warnings_.clear();
    return bench_options_from(*values, warnings_);
  }
  std::string vos_error(const std::vector<std::string>& arguments) {
    const auto made = vos_options(arguments);
    return made ? "" : made.error().sentence();
  }
};

TEST_F(VosFlags, SplitDirImpliesTheTaskAndModelsAreNamesWithPrompts) {
  for (const auto& [split, weights] :
       {std::pair{"--split_dir", "--weights_dir"}, {"--split-dir", "--weights-dir"}}) {
    const auto made = vos_options({split, path("images"), weights, path("weights"), "--models",
                                   "sam2_base_points,sam2_base_bbox, edgetam_mask"});
    ASSERT_TRUE(made) << made.error().sentence();
    EXPECT_EQ(made->task, "vos");
    ASSERT_TRUE(made->vos);
    EXPECT_EQ(made->vos->dataset, path("images"));
    ASSERT_EQ(made->models.size(), 3U);
    EXPECT_EQ(made->models[0].name, "sam2_base_points");
    EXPECT_EQ(made->models[0].path, path("weights/sam2_base"));
    EXPECT_EQ(made->models[0].prompt, PromptKind::points);
    EXPECT_EQ(made->models[1].prompt, PromptKind::box);
    EXPECT_EQ(made->models[2].path, path("weights/edgetam"));
    EXPECT_EQ(made->models[2].prompt, PromptKind::mask);
  }
}

TEST_F(VosFlags, AutocastDtypeIsThePrecision) {
  const std::vector<std::string> common{"--dataset", path("images"), "--model", path("weights/edgetam")};
  for (const auto& [word, precision] :
       {std::pair{"bfloat16", Precision::bf16}, {"float16", Precision::fp16}, {"float32", Precision::fp32}}) {
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), {"--autocast_dtype", word});
    const auto made = vos_options(arguments);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->precision, precision);
  }
  const auto both = vos_error({"--dataset", path("images"), "--model", path("weights/edgetam"),
                               "--autocast-dtype", "float16", "--precision", "fp16"});
  EXPECT_NE(both.find("--precision and --autocast-dtype cannot be combined"), std::string::npos) << both;
}

TEST_F(VosFlags, OfAModelStandBehindItsPath) {
  const auto made = vos_options(
      {"--dataset", path("images"), "--prompt", "mask", "--vos-profile", "evaluation", "--vos-objects",
       "alone", "--point-rule", "reference", "--planes", "fp16", "--max-video-pixels", "1000", "--model",
       "a=" + path("weights/edgetam") + ",prompt=box", "--model", path("weights/sam2_base")});
  ASSERT_TRUE(made) << made.error().sentence();
  EXPECT_EQ(made->models[0].prompt, PromptKind::box);
  EXPECT_FALSE(made->models[1].prompt);
  EXPECT_EQ(made->vos->prompt, PromptKind::mask);
  EXPECT_EQ(made->vos->profile, VosProfile::evaluation);
  EXPECT_EQ(made->vos->objects, VosObjects::alone);
  EXPECT_TRUE(made->vos->reference_point);
  EXPECT_EQ(made->vos->planes, PlaneType::fp16);
  EXPECT_EQ(made->vos->max_video_pixels, 1000);
}

TEST_F(VosFlags, CompileModelsSaysWhenItActs) {
  ASSERT_TRUE(
      vos_options({"--dataset", path("images"), "--model", path("weights/edgetam"), "--compile_models"}));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("TensorRT engines"), std::string::npos);
}

TEST_F(VosFlags, SaysThatTheGraphHasTheInputSize) {
  ASSERT_TRUE(
      vos_options({"--dataset", path("images"), "--model", path("weights/edgetam"), "--imgsz", "512"}));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("--imgsz has no effect with --task vos"), std::string::npos);
}

TEST_F(VosFlags, ErrorsNameTheFlagAndTheCure) {
  const std::string model = path("weights/edgetam");
  const auto has = [&](const std::vector<std::string>& arguments, const std::string& text) {
    const std::string error = vos_error(arguments);
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  has({"--task", "vos", "--model", model}, "--task vos needs a data set; add --dataset DIR");
  has({"--dataset", path("none"), "--model", model}, "it was not found");
  has({"--dataset", path("a.onnx"), "--model", model}, "it is not a folder");
  has({"--dataset", path("images")}, "no model was given");
  has({"--dataset", path("images"), "--models", "edgetam"}, "invalid model 'edgetam' of --models");
  has({"--dataset", path("images"), "--models", "x_points"}, "was not found");
  has({"--dataset", path("images"), "--model", model, "--parallel"},
      "--parallel cannot be combined with --task vos");
  has({"--dataset", path("images"), "--model", model, "--conf", "0.5"}, "--conf cannot be combined");
  has({"--dataset", path("images"), "--model", model, "--task", "yolov8"},
      "--dataset cannot be combined with --task");
  has({"--source", path("images"), "--model", path("a.onnx"), "--prompt", "box"},
      "--prompt has no effect without");
  has({"--source", path("images"), "--model", path("a.onnx"), "--planes", "fp16"},
      "--planes has no effect without --task vos");
  has({"--source", path("images"), "--model", path("a.onnx") + ",prompt=box"}, "needs --task vos");
}

}  // namespace
}  // namespace headroom::cli
