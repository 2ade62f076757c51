// Models that take no frames need no source and no media plug-in.
#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFaceModel = "models/face_detection_back_256x256_barracuda.onnx";

TEST(BenchWithoutSource, RunsModelsOnMadeUpInputs) {
  Bench bench;
  EXPECT_THAT(bench.run({"--backend", "misbehaving", "--max-frames", "7", "--mem-limit", "512MiB",
                         "--parallel", "--pipeline", "--model", "a=" + bench.model("a", ""), "--model",
                         "b=" + bench.model("b", "")}),
              Ends(0));
  const Json report = bench.report();
  EXPECT_EQ(get_bool(report, "complete"), true);
  EXPECT_FALSE(get_member(report, "source").contains("kind"));
  for (const char* name : {"a", "b"}) {
    const Json model = model_of(report, name);
    EXPECT_EQ(get_text(model, "status"), "ok") << name;
    EXPECT_EQ(get_integer(get_member(model, "latency_ns"), "n"), 7) << name;
    EXPECT_TRUE(fs::exists(bench.run_folder() / "footprints" / (std::string(name) + ".json")));
  }
  for (const Json& model : get_member(get_member(report, "parallel"), "together"))
    EXPECT_EQ(get_integer(get_member(model, "latency_ns"), "n"), 7);
  const Json& pipeline = get_member(report, "pipeline");
  EXPECT_EQ(get_integer(pipeline, "frames"), 7);
  ASSERT_EQ(get_member(pipeline, "models").size(), 2U);
  for (const Json& model : get_member(pipeline, "models"))
    EXPECT_EQ(get_integer(get_member(model, "latency_ns"), "n"), 7) << get_text(model, "name");
  EXPECT_FALSE(fs::exists(bench.run_folder() / "metadata.json"));
  EXPECT_THAT(read_text(bench.run_folder() / "report.md"),
              HasSubstr("inputs generated from their signatures"));
  EXPECT_THAT(run_headroom({"report", bench.run_folder().string()}), Ends(0));
}

TEST(BenchWithoutSource, ReportsWhyModelsThatTakeFramesFail) {
  const auto face = dependency_file(kFaceModel);
  if (!face) GTEST_SKIP() << absent_message("the face model");
  Bench bench;
  const CommandResult alone = bench.run({"--model", "face=" + face->string()});
  EXPECT_THAT(alone,
              IsRefused(HasSubstr("error: --source is missing: all models take frames; add --source")));
  EXPECT_THAT(alone.err, Not(HasSubstr("this model takes frames"))) << "one error for one mistake";
  EXPECT_THAT(alone.out, testing::IsEmpty());
  const CommandResult result = bench.run({"--max-frames", "3", "--tune", "--model", "face=" + face->string(),
                                          "--model", "m=" + bench.model("m", "") + ",backend=misbehaving"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const Json report = bench.report();
  EXPECT_EQ(get_text(model_of(report, "face"), "status"), "failed");
  EXPECT_EQ(get_text(model_of(report, "face"), "error"), "this model takes frames: add --source");
  EXPECT_EQ(get_text(model_of(report, "m"), "status"), "ok");
  EXPECT_THAT(result.err, HasSubstr("face: failed: this model takes frames: add --source"));
  EXPECT_THAT(result.out, HasSubstr("\nNext: headroom doctor "));
}

TEST(BenchWithoutSource, RunsAnAudioModel) {
  const auto sound = shared_data("models/silero_vad.onnx");
  if (!sound) GTEST_SKIP() << absent_message("silero_vad.onnx");
  Bench bench;
  EXPECT_THAT(bench.run({"--max-frames", "20", "--model", "vad=" + sound->string()}), Ends(0));
  const Json model = model_of(bench.report(), "vad");
  EXPECT_EQ(get_text(model, "task"), "generic");
  EXPECT_EQ(get_integer(get_member(model, "latency_ns"), "n"), 20);
}

TEST(BenchWithoutSource, SaysWhyASourceIsNotUsed) {
  const auto half = shared_data("field_cases/19-yolo-head-fp16.onnx");
  if (!half) GTEST_SKIP() << absent_message("field_cases/19-yolo-head-fp16.onnx");
  Bench bench;
  const std::string reason = "its input is float16[1,3,64,64], but tasks need float32 or uint8";
  const std::vector<std::string> run{"--max-frames", "3", "--model", "y=" + half->string()};
  std::vector<std::string> with_source = run;
  with_source.insert(with_source.end(), {"--source", bench.pictures()});
  // The terminal breaks the line.
  EXPECT_THAT(bench.run(with_source), Ends(0, HasSubstr("y: the source is not used"), HasSubstr(reason)));
  EXPECT_THAT(get_member(model_of(bench.report(), "y"), "warnings").dump(), HasSubstr(reason));
  EXPECT_THAT(bench.run(run), Ends(0, testing::Not(HasSubstr("source is not used"))));
}

TEST(BenchWithoutSource, RejectsASourceForDataPreparedWithoutOne) {
  Bench bench;
  const std::string model = "m=" + bench.model("m", "");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--backend", "misbehaving", "--max-frames", "3", "--model", model});
    return bench.run(more);
  };
  // Nothing of an earlier preparation with a source remains.
  const CommandResult prepared = with({"--source", bench.pictures(), "--skip-inference"});
  EXPECT_THAT(prepared,
              Ends(0, testing::_, HasSubstr("m: takes no frames; runs on inputs made from its signature")));
  EXPECT_EQ(with({"--skip-inference"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(bench.path() / "prepared/metadata.json"));
  EXPECT_THAT(with({"--skip-setup"}), Ends(0));
  EXPECT_EQ(get_text(model_of(bench.report(), "m"), "status"), "ok");
  EXPECT_THAT(with({"--skip-setup", "--source", bench.pictures()}),
              IsRefused(HasSubstr("it was prepared without --source")));
}

// The binary alone in a folder, as if the plug-ins were deleted.
TEST(BenchWithoutSource, NeedsTheMediaPluginOnlyForASource) {
  Bench bench;
  const fs::path alone = bench.path() / "alone/headroom";
  fs::create_directory(alone.parent_path());
  fs::copy_file(fs::path(test::built_path("bin/headroom")), alone);
  CommandOptions options;
  options.binary = alone;
  const std::vector<std::string> run{"--backend", "misbehaving", "--max-frames",
                                     "2",         "--model",     "m=" + bench.model("m", "")};
  std::vector<std::string> with_source = run;
  with_source.insert(with_source.end(), {"--source", bench.pictures()});
  EXPECT_THAT(bench.run(with_source, options),
              Ends(3, testing::IsEmpty(),
                   HasSubstr("error: cannot read images: libheadroom_media_pictures.so was not found in")));
  EXPECT_EQ(bench.run(run, options).exit_code, 0);
}

}  // namespace
}  // namespace headroom::test
