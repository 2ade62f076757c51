#include "cli/bench_flags.h"

#include <gtest/gtest.h>

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

TEST_F(BenchFlags, DefaultsAreTheReferences) {
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

TEST_F(BenchFlags, TheFourSlots) {
  const auto made = options({"--model1", path("a.onnx"), "--model3", path("b.onnx")});
  ASSERT_TRUE(made) << made.error().sentence();
  EXPECT_EQ(made->models[0].name, "yolo11s_rgb");
  EXPECT_EQ(made->models[1].name, "yolov8n_thermal");
  EXPECT_EQ(made->skipped_slots, (std::vector<std::string>{"yolo11n_rgb", "yolo11n_thermal"}));
}

TEST_F(BenchFlags, LimitsInBothSpellings) {
  EXPECT_EQ(options({"--model", path("a.onnx"), "--mem-limit", "12GiB"})->memory_limit, gibibytes(12));
  EXPECT_EQ(options({"--model", path("a.onnx"), "--gpu-mem-limit-gb", "12"})->memory_limit, gibibytes(8));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(options({"--model", path("a.onnx"), "--gpu_mem_limit_gb", "2.5"})->memory_limit, mebibytes(2560));
  EXPECT_TRUE(warnings_.empty());
  EXPECT_THAT(error_of({"--model", path("a.onnx"), "--mem-limit", "1GiB", "--gpu-mem-limit-gb", "1"}),
              testing::HasSubstr("give one of them"));
}

TEST_F(BenchFlags, WrongUseIsOneSentence) {
  EXPECT_EQ(error_of({}),
            "no model was given; name one with --model NAME=PATH, or a slot with --model0 PATH");
  EXPECT_EQ(error_of({"--model", path("a.onnx")}, false),
            "no source was given; name one with --source image_dir=DIR, video=FILE or camera=N");
  EXPECT_EQ(error_of({"--model", "x=/nowhere.onnx", "--model0", "/gone.engine"}),
            "model files were not found: /nowhere.onnx (x), /gone.engine (yolo11n_rgb); check the paths");
  EXPECT_THAT(error_of({"--model", "m=" + path("a.onnx"), "--model", "m=" + path("b.onnx")}),
              testing::HasSubstr("two models are named 'm'"));
  EXPECT_THAT(error_of({"--model", path("a.onnx"), "--skip-setup", "--skip-inference"}),
              testing::HasSubstr("nothing to do"));
  EXPECT_THAT(error_of({"--model", path("a.onnx"), "--task", "yolo99"}),
              testing::HasSubstr("there is no task 'yolo99'"));
}

}  // namespace
}  // namespace headroom::cli
