// Results of runs with real models and real images.

#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using BenchFigures = BenchTest;

// The three models of `make demo` with their images; skips if they are missing.
class RealModels : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"models/ch_PP-OCRv4_det_infer.onnx", "models/face_detection_back_256x256_barracuda.onnx",
          "models/mlsd_320x320_tiny.onnx"}) {
      const auto path = dependency_file(name);
      if (!path) GTEST_SKIP() << absent_message(name);
      paths_.push_back(path->string());
    }
    for (const char* name : {"data/messi5.jpg", "text/scenetext01.jpg"}) {
      const auto path = opencv_example(name);
      if (!path) GTEST_SKIP() << absent_message(std::string(name) + " of opencv-doc");
      fs::copy(*path, bench_.path() / "pictures" / path->filename());
    }
    fs::remove(bench_.path() / "pictures/small.bmp");
  }
  // messi5.jpg: the face is at about [221, 96, 259, 134].
  void expect_the_face_at_its_place() const {
    const auto samples = parse_json(read_text(bench_.run_folder() / "samples/face.json"));
    ASSERT_TRUE(samples);
    double best = 0;
    for (const Json& sample : *samples) {
      if (get_text(sample, "name") != "messi5.jpg") continue;
      for (const Json& found : get_member(get_member(sample, "findings"), "detections")) {
        const auto box = get_member(found, "box").get<std::vector<double>>();
        const double width = std::min(box[2], 259.0) - std::max(box[0], 221.0);
        const double height = std::min(box[3], 134.0) - std::max(box[1], 96.0);
        const double overlap = std::max(0.0, width) * std::max(0.0, height);
        const double area = (box[2] - box[0]) * (box[3] - box[1]);
        best = std::max(best, overlap / (area + 38.0 * 38.0 - overlap));
      }
    }
    EXPECT_GT(best, 0.6);
  }
  std::vector<std::string> arguments() {
    return {"--source", "image_dir=" + bench_.pictures(),
            "--model",  "text=" + paths_[0],
            "--model",  "face=" + paths_[1],
            "--model",  "lines=" + paths_[2]};
  }
  Bench bench_;
  std::vector<std::string> paths_;
};

TEST_F(RealModels, ReportsTimeMemoryAndFindingsOfEachModel) {
  ASSERT_THAT(bench_.run(arguments()), Ends(0));
  const Json report = bench_.report();
  EXPECT_EQ(get_bool(report, "complete"), true);
  for (const char* name : {"text", "face", "lines"}) {
    const Json model = model_of(report, name);
    EXPECT_EQ(get_text(model, "status"), "ok") << name;
    EXPECT_EQ(get_text(model, "backend"), "onnxruntime");
    EXPECT_GT(get_number(model, "fps").value_or(0), 0) << name;
    EXPECT_EQ(get_integer(get_member(model, "latency_ns"), "n"), 2) << name;
    const Json& memory = get_member(model, "memory");
    const auto bytes = [&](const char* key) { return get_integer(memory, key).value_or(-1); };
    EXPECT_GT(bytes("start_bytes"), 0) << name;
    EXPECT_GT(bytes("runtime_bytes"), bytes("start_bytes")) << name;
    EXPECT_GT(bytes("loaded_bytes"), bytes("runtime_bytes")) << name;
    EXPECT_GE(bytes("load_peak_bytes"), bytes("loaded_bytes")) << name;
    EXPECT_GE(bytes("run_peak_bytes"), bytes("loaded_bytes")) << name;
    EXPECT_LE(bytes("run_mean_bytes"), bytes("run_peak_bytes")) << name;
    EXPECT_TRUE(memory.contains("residual_bytes")) << name;
    EXPECT_GT(get_number(get_member(model, "detections_per_frame"), "max").value_or(0), 0) << name;
    EXPECT_TRUE(fs::exists(bench_.run_folder() / ("footprints/" + std::string(name) + ".json"))) << name;
    EXPECT_TRUE(fs::exists(bench_.run_folder() / ("samples/" + std::string(name) + "_1.jpg"))) << name;
  }
  for (const char* file : {"report.md", "summary.csv", "metrics.jsonl", "report.html", "run.log"})
    EXPECT_TRUE(fs::exists(bench_.run_folder() / file)) << file;
  expect_the_face_at_its_place();
}

// A run of a few milliseconds ends before the first sample from outside, and its cleaning follows.
TEST_F(BenchFigures, MeasuresTheMeanOfAShortRunBeforeItsCleaning) {
  ASSERT_THAT(
      run_without_source({"--max-frames", "3", "--model", model("m", "load allocate 40\ntrim release")}),
      Ends(0));
  const Json model = entry("m");
  const Json& memory = get_member(model, "memory");
  const auto bytes = [&](const char* key) { return get_integer(memory, key).value_or(-1); };
  EXPECT_GT(bytes("loaded_bytes"), 40 << 20);
  EXPECT_GE(bytes("run_mean_bytes"), bytes("loaded_bytes") - (1 << 20));
  EXPECT_LE(bytes("run_mean_bytes"), bytes("run_peak_bytes"));
#if !defined(HEADROOM_SANITIZED)  // a sanitizer keeps freed memory for a while
  EXPECT_LT(bytes("residual_bytes"), bytes("loaded_bytes") - (30 << 20));
#endif
}

TEST_F(RealModels, ReusesPreparedDataUnlessItIsStale) {
  auto words = arguments();
  words.emplace_back("--skip-inference");
  ASSERT_EQ(bench_.run(words).exit_code, 0);
  words.back() = "--skip-setup";
  EXPECT_THAT(bench_.run(words), Ends(0));
  fs::remove(bench_.path() / "pictures/messi5.jpg");
  EXPECT_THAT(bench_.run(words), IsRefused(testing::HasSubstr("has changed since")));
}

TEST_F(RealModels, ReportsParallelAndPipelineWithTheSingleModels) {
  auto all = arguments();
  all.insert(all.end(), {"--parallel", "--pipeline"});
  const CommandResult result = bench_.run(all);
  const Json report = bench_.report();
  ASSERT_EQ(result.exit_code, 0) << result.err << to_text(get_member(report, "parallel"))
                                 << to_text(get_member(report, "pipeline"))
                                 << read_text(bench_.run_folder() / "run.log");
  const Json& parallel = get_member(report, "parallel");
  EXPECT_EQ(get_member(parallel, "together").size(), 3U);
  EXPECT_GT(get_integer(parallel, "sum_of_peaks_bytes").value_or(0), 0);
  EXPECT_GT(get_integer(parallel, "joint_peak_bytes").value_or(0), 0);
  const Json& pipeline = get_member(report, "pipeline");
  EXPECT_EQ(get_text(pipeline, "status"), "ok");
  ASSERT_EQ(get_member(pipeline, "models").size(), 3U);
  for (const Json& model : get_member(pipeline, "models")) {
    EXPECT_GT(get_integer(model, "load_time_ns").value_or(0), 0);
    EXPECT_GT(get_integer(model, "memory_increment_bytes").value_or(0), 0);
  }
  EXPECT_EQ(get_integer(pipeline, "frames"), 2);
}

TEST_F(RealModels, ReportsTheThresholdsAndOptions) {
  ASSERT_THAT(
      bench_.run({"--source", "image_dir=" + bench_.pictures(), "--model", "face=" + paths_[1] + ",conf=0.9",
                  "--model", "text=" + paths_[0], "--warmup", "4", "--threads", "1"}),
      Ends(0));
  const Json report = bench_.report();
  EXPECT_EQ(get_number(model_of(report, "face"), "confidence"), 0.9);
  EXPECT_EQ(get_number(model_of(report, "face"), "iou"), 0.45);
  EXPECT_FALSE(model_of(report, "text").contains("confidence")) << "DB has no threshold of --conf";
  const Json& options = get_member(report, "options");
  EXPECT_EQ(get_integer(options, "warmup"), 4);
  EXPECT_EQ(get_integer(options, "threads"), 1);
  EXPECT_EQ(get_integer(options, "max_frames"), 300) << "defaults are reported, too";
  EXPECT_EQ(get_integer(options, "workspace_bytes"), 256 << 20);
  EXPECT_THAT(read_text(bench_.run_folder() / "report.md"), testing::HasSubstr("confidence 0.9, IoU 0.45"));
}

TEST_F(BenchFigures, BoundsTheFramesInMemory) {
  const auto video = opencv_example("data/vtest.avi");
  const auto model = dependency_file("models/face_detection_back_256x256_barracuda.onnx");
  if (!video) GTEST_SKIP() << absent_message("vtest.avi of opencv-doc");
  if (!model) GTEST_SKIP() << absent_message("the face model");
  ASSERT_THAT(bench_.run({"--source", video->string(), "--model", "face=" + model->string(), "--max-frames",
                          "20", "--max-frames-in-mem", "3"}),
              Ends(0));
  EXPECT_EQ(get_integer(get_member(bench_.report(), "source"), "frames_held_peak"), 3);
  EXPECT_EQ(get_integer(get_member(entry("face"), "latency_ns"), "n"), 20);
  // Two parallel models share the five frames and hold two each; the pipeline has all five.
  ASSERT_THAT(bench_.run({"--source", video->string(), "--model", "a=" + model->string(), "--model",
                          "b=" + model->string(), "--max-frames", "20", "--max-frames-in-mem", "5",
                          "--parallel", "--pipeline"}),
              Ends(0));
  EXPECT_EQ(get_integer(get_member(bench_.report(), "parallel"), "frames_held"), 4);
  EXPECT_EQ(get_integer(get_member(bench_.report(), "pipeline"), "frames_held"), 5);
  EXPECT_EQ(get_integer(get_member(bench_.report(), "source"), "frames_held_peak"), 5);
}

TEST_F(BenchFigures, SkipsSlotsWithoutAPath) {
  EXPECT_THAT(run({"--model1", bench_.model("m", ""), "--max-frames", "3"}), Ends(0));
  const Json report = bench_.report();
  EXPECT_EQ(status_of("yolo11s_rgb"), "ok");
  for (const char* slot : {"yolo11n_rgb", "yolo11n_thermal", "yolov8n_thermal"})
    EXPECT_EQ(get_text(model_of(report, slot), "status"), "skipped") << slot;
}

}  // namespace
}  // namespace headroom::test
