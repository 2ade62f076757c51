// `headroom bench --task vos` with a tiny random net over a made data set of SA-V's layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <fstream>

#include "cli/command.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kWidth = 96, kHeight = 64, kFrames = 21;

void add_number(std::string& text, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 0xFF);
}

void add_chunk(std::string& png, std::string chunk) {  // type and data
  add_number(png, static_cast<std::uint32_t>(chunk.size() - 4));
  png += chunk;
  const auto* bytes = reinterpret_cast<const Bytef*>(chunk.data());
  add_number(png, static_cast<std::uint32_t>(::crc32(0, bytes, static_cast<uInt>(chunk.size()))));
}

// A PNG of 8 bits: grey, or RGB.
void write_png(const fs::path& path, const std::function<std::array<int, 3>(int, int)>& pixel, bool is_grey,
               int width = kWidth, int height = kHeight) {
  std::string rows;
  for (int y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    for (int x = 0; x < width; ++x)
      for (int channel = 0; channel < (is_grey ? 1 : 3); ++channel)
        rows += static_cast<char>(pixel(x, y).at(static_cast<std::size_t>(channel)));
  }
  uLongf size = ::compressBound(static_cast<uLong>(rows.size()));
  std::string packed(size, '\0');
  ::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
             static_cast<uLong>(rows.size()));
  packed.resize(size);
  std::string header = "IHDR";
  add_number(header, static_cast<std::uint32_t>(width));
  add_number(header, static_cast<std::uint32_t>(height));
  header += {8, static_cast<char>(is_grey ? 0 : 2), 0, 0, 0};
  std::string png = "\x89PNG\r\n\x1a\n";
  add_chunk(png, header);
  add_chunk(png, "IDAT" + packed);
  add_chunk(png, "IEND");
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << png;
}

std::string number(int frame) { return "000" + std::string(frame < 10 ? "0" : "") + std::to_string(frame); }

class BenchVos : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "weights");
    for (const char* model : {"sam2_base", "edgetam"})
      fs::copy(source_path("tests/golden/vos/sam2"), folder_ / ("weights/" + std::string(model)),
               fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    add_video("clip_a", 2);
    add_video("clip_b", 1);
  }

  // A square of 20 pixels for each object, which moves a pixel a frame.
  void add_video(const std::string& name, int objects, int frames = kFrames, int width = kWidth) {
    const auto is_inside = [](int object, int frame, int x, int y) {
      const int left = 8 + 40 * object + frame, top = 10 + 12 * object;
      return x >= left && x < left + 20 && y >= top && y < top + 20;
    };
    for (int frame = 0; frame < frames; ++frame)
      write_png(
          split() / "JPEGImages_24fps" / name / (number(frame) + ".png"),
          [&](int x, int y) -> std::array<int, 3> {
            for (int object = 0; object < objects; ++object)
              if (is_inside(object, frame, x, y)) return {220 - 90 * object, 40, 40 + 150 * object};
            return {x, 2 * y, 90};
          },
          false, width);
    for (int object = 0; object < objects; ++object)
      for (int frame = 0; frame < frames; frame += 4)
        write_png(
            split() / "Annotations_6fps" / name / ("00" + std::to_string(object)) / (number(frame) + ".png"),
            [&](int x, int y) -> std::array<int, 3> {
              return {is_inside(object, frame, x, y) ? 255 : 0, 0, 0};
            },
            true, width);
  }

  fs::path split() const { return folder_ / "sav_val"; }
  // In the folder of the weights' parent, as a user of the guide would.
  CommandResult run(Words words, CommandOptions options = {}) {
    words.insert(words.begin(), "bench");
    options.folder = folder_.path();
    return run_headroom(words, options);
  }
  // A short run of the net, with these words besides.
  CommandResult run_short(Words words, const std::string& model = "net=weights/edgetam") {
    return run(joined({{"--dataset", "sav_val", "--model", model, "--warmup", "1"}, std::move(words)}));
  }
  fs::path newest_run(const std::string& out = "outputs") const {
    fs::path newest;
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(folder_ / out, code))
      if (entry.is_directory()) newest = std::max(newest, entry.path());
    return newest;
  }
  Json report(const std::string& out = "outputs") const {
    auto document = parse_json(read_text(newest_run(out) / "report.json"), "report.json");
    return document ? *document : Json();
  }
  std::vector<std::string> planes(const std::string& prepared = "preprocessed_data") const {
    std::vector<std::string> names;
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(folder_ / prepared / "planes", code))
      names.push_back(entry.path().filename().string());
    return names;
  }

  TemporaryFolder folder_;
};

// The first command of the two-phase guide.
TEST_F(BenchVos, RunsTheGuidesCommand) {
  const auto result =
      run({"--split_dir", "sav_val", "--models",
           "sam2_base_points,sam2_base_bbox,edgetam_points,edgetam_bbox", "--weights_dir", "./weights",
           "--imgsz", "1024", "--enable_cudnn_tuning", "--out_dir", "./jetson_results"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("J&F"), HasSubstr("sam2_base_bbox")));
  const Json document = report("jetson_results");
  ASSERT_EQ(document["models"].size(), 4U);
  for (const Json& model : document["models"]) {
    EXPECT_EQ(get_text(model, "status"), "ok") << get_text(model, "error");
    EXPECT_EQ(get_text(model, "task"), "vos");
    EXPECT_GT(model["fps"].get<double>(), 0);
    EXPECT_FALSE(model["trials"].empty());
    const Json& vos = model["vos"];
    EXPECT_EQ(vos["clips"].size(), 2U);
    ASSERT_EQ(vos["scores"].size(), 3U);
    for (const Json& clip : vos["clips"]) EXPECT_GT(get_integer(clip, "peak_bytes").value_or(0), 1 << 20);
    EXPECT_TRUE(vos["mean"].contains("j_and_f"));
    EXPECT_EQ(model["annotated_images"].size(), 2U);
    EXPECT_TRUE(fs::exists(newest_run("jetson_results") / model["annotated_images"][0].get<std::string>()));
  }
  EXPECT_EQ(get_text(document["models"][1]["vos"], "prompt"), "box");
  const std::string csv = read_text(folder_ / "jetson_results/jetson_benchmark_summary.csv");
  EXPECT_THAT(csv, AllOf(HasSubstr("video,object,model,imgsz,frames,fps,latency_ms"),
                         HasSubstr("clip_a,001,sam2_base_points,128,21,")));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 4 * 3);
}

TEST_F(BenchVos, RunsSetupAndInferenceApart) {
  const auto setup =
      run({"--split_dir", "sav_val", "--models", "edgetam_points", "--weights_dir", "weights",
           "--enable_cudnn_tuning", "--preprocessed_dir", "./my_preprocessed", "--skip_inference"});
  ASSERT_EQ(setup.exit_code, 0) << setup.err;
  EXPECT_EQ(planes("my_preprocessed").size(), 2U);
  const auto inference = run({"--split_dir", "sav_val", "--models", "edgetam_points", "--weights_dir",
                              "weights", "--preprocessed_dir", "./my_preprocessed", "--skip_setup"});
  ASSERT_EQ(inference.exit_code, 0) << inference.err;
  EXPECT_EQ(report()["models"][0]["vos"]["scores"].size(), 3U);
}

// The guide's command for little memory, and that of gpu-allocation-fixes.
TEST_F(BenchVos, RunsTheCommandsForLittleMemory) {
  const auto small = run({"--split_dir", "sav_val", "--models", "sam2_base_points", "--weights_dir",
                          "weights", "--imgsz", "512", "--max_frames_in_mem", "300", "--workspace_mb", "128",
                          "--limit_videos", "1", "--enable_cudnn_tuning"});
  ASSERT_EQ(small.exit_code, 0) << small.err;
  EXPECT_EQ(report()["models"][0]["vos"]["clips"].size(), 1U);
  for (const char* type : {"bfloat16", "float16", "float32"}) {
    const auto fixes =
        run({"--split_dir", "sav_val", "--models", "edgetam_points", "--weights_dir", "weights",
             "--limit_videos", "10", "--limit_objects", "1", "--autocast_dtype", type});
    ASSERT_EQ(fixes.exit_code, 0) << fixes.err;
    const Json model = report()["models"][0];
    EXPECT_EQ(model["vos"]["scores"].size(), 2U);
    // Memories of 32 bits take twice the bytes.
    const std::int64_t bank = get_integer(model["vos"], "bank_bytes").value_or(0);
    static std::int64_t half = 0;
    if (std::string(type) == "bfloat16") half = bank;
    if (std::string(type) == "float32")
      EXPECT_GT(bank, half);
    else
      EXPECT_EQ(bank, half);
  }
}

TEST_F(BenchVos, DecodesFramesOnce) {
  ASSERT_EQ(run_short({"--skip-inference"}).exit_code, 0);
  EXPECT_THAT(read_text(newest_run() / "run.log"), HasSubstr("42 frames decoded, 0 prepared earlier"));
  ASSERT_EQ(run_short({"--skip-inference"}).exit_code, 0);
  EXPECT_THAT(read_text(newest_run() / "run.log"), HasSubstr("0 frames decoded, 42 prepared earlier"));
}

TEST_F(BenchVos, ObjectsAloneAreCleanedAfterEachObject) {
  const auto result =
      run_short({"--vos-objects", "alone", "--prompt", "mask", "--vos-profile", "evaluation"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json model = report()["models"][0];
  const Json& clips = model["vos"]["clips"];
  ASSERT_EQ(clips.size(), 3U);
  EXPECT_EQ(get_text(clips[1], "object"), "001");
  std::vector<std::string> cleaned;
  for (const Json& point : model["cleanups"])
    cleaned.push_back(get_text(point, "level") + " " + get_text(point, "name"));
  EXPECT_THAT(cleaned, testing::ElementsAre("object clip_a/000", "object clip_a/001", "video clip_a",
                                            "object clip_b/000", "video clip_b"));
  EXPECT_TRUE(model["vos"]["leaks"].empty()) << model["vos"]["leaks"];
  EXPECT_EQ(model["vos"]["loads_bytes"].size(), 3U);
}

// Each test plants a leak of 4 MiB at one level. The worker cleans up after each clip (6 videos with 2
// objects), and then after each of 3 unloadings of the model.
class BenchVosLeaks : public BenchVos {
 protected:
  void SetUp() override {
    BenchVos::SetUp();
    for (const char* name : {"clip_b", "clip_c", "clip_d", "clip_e", "clip_f"}) add_video(name, 2, 5);
    add_video("clip_a", 2, 5);
  }
  std::vector<std::string> leaks_with(const char* calls) {
    CommandOptions options;
    options.environment = {{"LD_PRELOAD", HEADROOM_LEAKING_TRIM}, {"HEADROOM_TEST_LEAK", calls}};
    const auto result = run({"--dataset", "sav_val", "--model", "net=weights/edgetam", "--warmup", "1",
                             "--vos-objects", "alone", "--max-frames", "5"},
                            options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> levels;
    const Json leaks = report()["models"][0]["vos"]["leaks"];
    for (const Json& leak : leaks) {
      levels.push_back(get_text(leak, "level"));
      EXPECT_NEAR(leak["growth"]["bytes"].get<double>(), 4 << 20, 1 << 19);
      EXPECT_THAT(result.out, HasSubstr("host memory leaks: +"));
    }
    return levels;
  }
};

TEST_F(BenchVosLeaks, OfAnObjectIsNamed) { EXPECT_THAT(leaks_with("1 5"), testing::ElementsAre("object")); }
TEST_F(BenchVosLeaks, OfAVideoIsNamed) { EXPECT_THAT(leaks_with("1 10"), testing::ElementsAre("video")); }
TEST_F(BenchVosLeaks, OfAModelIsNamed) { EXPECT_THAT(leaks_with("61 1"), testing::ElementsAre("model")); }
TEST_F(BenchVosLeaks, NoneIsNamedWithoutOne) { EXPECT_THAT(leaks_with("1000 1"), testing::ElementsAre()); }

TEST_F(BenchVos, MemoryIsFlatOverALongClip) {
  add_video("clip_c", 1, 99);
  const auto result = run_short({"--limit-objects", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json growth = report()["models"][0]["vos"]["growth_per_frame"];
  EXPECT_LT(growth["bytes"].get<double>(), 16 << 10);
}

TEST_F(BenchVos, LeavesOutBrokenObjectsAndVideosWithTheReason) {
  write_text(split() / "Annotations_6fps/clip_a/001/00000.png", "broken");
  write_text(split() / "JPEGImages_24fps/clip_b/00007.png", "broken");
  const auto result = run_short({});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json document = report();
  std::string skipped;
  for (const Json& item : document["source"]["skipped"])
    skipped += get_text(item, "name") + ": " + get_text(item, "reason") + "\n";
  EXPECT_THAT(skipped, AllOf(HasSubstr("clip_a/001: "), HasSubstr("clip_b: "), HasSubstr("00007.png")));
  EXPECT_EQ(document["models"][0]["vos"]["clips"].size(), 1U);
}

TEST_F(BenchVos, LeavesOutLargeVideos) {
  add_video("clip_large", 1, 5, 2 * kWidth);
  const auto result = run_short({"--max-video-pixels", std::to_string(kWidth * kHeight)});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(report()["source"]["skipped"].dump(), HasSubstr("more than --max-video-pixels 6144"));
  EXPECT_EQ(report()["models"][0]["vos"]["clips"].size(), 2U);
}

TEST_F(BenchVos, RefusesVideosThatWouldNotFit) {
  ASSERT_EQ(run_short({"--skip-inference", "--mem-limit", "1GiB", "--limit-mechanism", "none"}).exit_code, 0);
  // Read back by --skip-setup, and then too small for any video.
  const auto result = run_short({"--skip-setup", "--mem-limit", "20MiB", "--limit-mechanism", "none"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("clip_a"), HasSubstr("96 × 64 with 2 objects would need about"),
                                HasSubstr("above the limit of 20.0 MiB")));
  EXPECT_THAT(get_text(report()["models"][0], "error"), HasSubstr("no video would fit under the limit"));
}

TEST_F(BenchVos, RejectsPreparedDataOfOtherOptions) {
  ASSERT_EQ(run_short({"--skip-inference"}).exit_code, 0);
  const auto other = run_short({"--skip-setup", "--vos-profile", "evaluation"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("it was prepared with other --dataset, --task or their options"));
  write_text(split() / "JPEGImages_24fps/clip_a/00003.png", "changed");
  const auto changed = run_short({"--skip-setup"});
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_THAT(changed.err, HasSubstr("has changed since"));
}

TEST_F(BenchVos, FailsForAFolderWithoutVideosOrGraphs) {
  fs::create_directories(folder_ / "empty");
  const auto no_videos = run({"--dataset", "empty", "--model", "weights/edgetam"});
  EXPECT_EQ(no_videos.exit_code, 2);
  EXPECT_THAT(no_videos.err, HasSubstr("empty"));
  fs::remove(folder_ / "weights/edgetam/memory_encoder.onnx");
  const auto no_graph = run_short({});
  EXPECT_EQ(no_graph.exit_code, 1) << no_graph.err;
  EXPECT_THAT(no_graph.err, HasSubstr("memory_encoder"));
}

TEST_F(BenchVos, ReportsAreMarkdownCsvAndHtml) {
  ASSERT_EQ(run_short({}).exit_code, 0);
  const std::string markdown = read_text(newest_run() / "report.md");
  EXPECT_THAT(markdown, AllOf(HasSubstr("Peak by resolution and objects"), HasSubstr("96 × 64"),
                              HasSubstr("Memory by clip"), HasSubstr("Reference J&F")));
  EXPECT_THAT(read_text(newest_run() / "summary.csv"),
              HasSubstr(",j_and_f,j_mean,f_mean,growth_per_frame_bytes\r\n"));
  EXPECT_TRUE(fs::exists(newest_run() / "report.html"));
}

}  // namespace
}  // namespace headroom::test
