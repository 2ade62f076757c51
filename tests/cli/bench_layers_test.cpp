// `headroom bench --layers`: the contents of a model's heap, from a separate traced run.
#include <gtest/gtest.h>

#include <map>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;

class BenchLayers : public testing::Test {
 protected:
  void SetUp() override {
#ifdef HEADROOM_SANITIZED
    GTEST_SKIP() << "a sanitizer's allocator stands before the tracer";
#endif
    const auto path = dependency_file("models/ch_PP-OCRv4_det_infer.onnx");
    if (!path) GTEST_SKIP() << absent_message("models/ch_PP-OCRv4_det_infer.onnx");
    arguments_ = {"--source", "image_dir=" + bench_.pictures(), "--model", "text=" + path->string(),
                  "--layers"};
  }
  Bench bench_;
  std::vector<std::string> arguments_;
};

TEST_F(BenchLayers, NamesEveryByteOfThePeakAndDoesNotTraceTheMeasuredRun) {
  const CommandResult result = bench_.run(arguments_);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json model = model_of(bench_.report(), "text");
  const Json& layers = get_member(model, "layers");
  ASSERT_TRUE(layers.is_object()) << get_member(model, "warnings").dump();
  const std::int64_t peak = get_integer(layers, "peak_bytes").value_or(0);
  std::int64_t sum = 0, named = 0;
  std::map<std::string, std::int64_t> kinds;
  for (const Json& share : get_member(layers, "shares")) {
    const std::int64_t bytes = get_integer(share, "bytes").value_or(-1);
    EXPECT_GT(bytes, 0);
    sum += bytes;
    kinds[get_text(share, "kind")] += bytes;
    if (get_text(share, "kind") != "unnamed") named += bytes;
  }
  EXPECT_GT(peak, 16 << 20);
  EXPECT_EQ(sum, peak);
  EXPECT_GE(static_cast<double>(named), 0.99 * static_cast<double>(peak));
  // The model file has 4.6 MB, nearly all of it weights.
  EXPECT_GT(kinds["weights"], 4 << 20);
  EXPECT_LT(kinds["weights"], 6 << 20);
  EXPECT_GT(kinds["tensors"], kinds["weights"]);
  EXPECT_GT(get_member(layers, "nodes").size(), 50u);
  EXPECT_TRUE(fs::exists(bench_.run_folder() / get_text(layers, "recording")));
  EXPECT_THAT(read_text(bench_.run_folder() / "report.md"), testing::HasSubstr("Where the memory goes"));
  EXPECT_THAT(result.out, testing::HasSubstr("ARENA SLACK"));
  const auto start_bytes = [&] {
    return get_integer(get_member(model_of(bench_.report(), "text"), "memory"), "start_bytes").value_or(0);
  };
  const std::int64_t with = start_bytes();
  arguments_.pop_back();
  ASSERT_EQ(bench_.run(arguments_).exit_code, 0);
  EXPECT_FALSE(model_of(bench_.report(), "text").contains("layers"));
  // The preload library alone would add 1.5 MiB before anything is loaded.
  EXPECT_NEAR(static_cast<double>(with), static_cast<double>(start_bytes()), 512 << 10);
}

TEST_F(BenchLayers, RunsNothingWithoutTheTracer) {
  CommandOptions options;
  options.environment = {{"HEADROOM_TRACER", "/nowhere/libheadroom_trace.so"}};
  EXPECT_THAT(bench_.run(arguments_, options),
              IsRefused(testing::AllOf(testing::HasSubstr("/nowhere/libheadroom_trace.so"),
                                       testing::Not(testing::HasSubstr("scanning")))));
}

}  // namespace
}  // namespace headroom::test
