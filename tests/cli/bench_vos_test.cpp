// `headroom bench --task vos` with a tiny random net over a made data set of SA-V's layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <fstream>

#include "base/units.h"
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

enum class Png : char { grey = 0, rgb = 2, indexed = 3 };  // of 8 bits, by PNG's numbers

void write_png(const fs::path& path, const std::function<std::array<int, 3>(int, int)>& pixel, Png kind,
               int width = kWidth, int height = kHeight) {
  std::string rows;
  for (int y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    for (int x = 0; x < width; ++x)
      for (int channel = 0; channel < (kind == Png::rgb ? 3 : 1); ++channel)
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
  header += {8, static_cast<char>(kind), 0, 0, 0};
  std::string png = "\x89PNG\r\n\x1a\n";
  add_chunk(png, header);
  std::string palette = "PLTE";
  for (int i = 0; i < 256; ++i) palette += {static_cast<char>(i * 60), static_cast<char>(i * 90), '\x40'};
  if (kind == Png::indexed) add_chunk(png, palette);
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
  static bool is_inside(int object, int frame, int x, int y) {
    const int left = 8 + 40 * object + frame, top = 10 + 12 * object;
    return x >= left && x < left + 20 && y >= top && y < top + 20;
  }
  static void write_frame(const fs::path& path, int objects, int frame, int width = kWidth) {
    write_png(
        path,
        [&](int x, int y) -> std::array<int, 3> {
          for (int object = 0; object < objects; ++object)
            if (is_inside(object, frame, x, y)) return {220 - 90 * object, 40, 40 + 150 * object};
          return {x, 2 * y, 90};
        },
        Png::rgb, width);
  }

  // Of SA-V's layout.
  void add_video(const std::string& name, int objects, int frames = kFrames, int width = kWidth) {
    for (int frame = 0; frame < frames; ++frame)
      write_frame(split() / "JPEGImages_24fps" / name / (number(frame) + ".png"), objects, frame, width);
    for (int object = 0; object < objects; ++object)
      for (int frame = 0; frame < frames; frame += 4)
        write_png(
            split() / "Annotations_6fps" / name / ("00" + std::to_string(object)) / (number(frame) + ".png"),
            [&](int x, int y) -> std::array<int, 3> {
              return {is_inside(object, frame, x, y) ? 255 : 0, 0, 0};
            },
            Png::grey, width);
  }

  // Of DAVIS' layout. 2016: masks of one object, 0 and 255; 2017: pixels have the object's id.
  void add_davis_video(const std::string& name, int objects, bool is_2016) {
    for (int frame = 0; frame < kFrames; ++frame) {
      write_frame(folder_ / "davis/JPEGImages/480p" / name / (number(frame) + ".png"), objects, frame);
      write_png(
          folder_ / "davis/Annotations/480p" / name / (number(frame) + ".png"),
          [&](int x, int y) -> std::array<int, 3> {
            for (int object = 0; object < objects; ++object)
              if (is_inside(object, frame, x, y)) return {is_2016 ? 255 : object + 1, 0, 0};
            return {0, 0, 0};
          },
          is_2016 ? Png::grey : Png::indexed);
    }
  }

  // Runs all kinds of prompts over the folder "davis". Returns each model's objects.
  std::vector<std::string> objects_of_davis() {
    Words words{"--dataset", "davis", "--warmup", "1"};
    for (const char* prompt : {"points", "box", "mask"})
      words.insert(words.end(),
                   {"--model", std::string(prompt) + "=weights/sam2_base,prompt=" + std::string(prompt)});
    const auto result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json document = report();
    EXPECT_EQ(get_text(document["vos"], "layout"), "davis");
    std::vector<std::string> all;
    for (const Json& model : document["models"]) {
      EXPECT_EQ(get_text(model["vos"], "prompt"), get_text(model, "name"));
      std::string objects = get_text(model, "name") + ":";
      for (const Json& score : model["vos"]["scores"]) {
        objects += " " + get_text(score, "video") + "/" + get_text(score, "object");
        EXPECT_EQ(score["frames"].get<int>(), kFrames - 2);  // without the first and the last
        EXPECT_TRUE(score.contains("j_and_f"));
        EXPECT_TRUE(score.contains("reference_j_and_f"));
      }
      all.push_back(objects);
    }
    return all;
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
  void copy_model(const std::string& golden, const std::string& name) {
    fs::copy(source_path("tests/golden/vos/" + golden), folder_ / ("weights/" + name));
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

// A trained net: a fault of the tracker lowers its accuracy (tests/golden/vos/README.md).
TEST_F(BenchVos, TracksShapesAccurately) {
  const std::string shapes = source_path("tests/golden/vos/shapes");
  const auto result =
      run({"--dataset", source_path("tests/golden/vos/clips"), "--model", "points=" + shapes, "--model",
           "box=" + shapes + ",prompt=box", "--model", "mask=" + shapes + ",prompt=mask"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  const Json document = report();
  ASSERT_EQ(document["models"].size(), 3U);
  for (const Json& model : document["models"]) {
    const double accuracy = model["vos"]["mean"]["j_and_f"].get<double>();
    EXPECT_NEAR(accuracy, 0.837, 0.01) << get_text(model, "name");
  }
}

TEST_F(BenchVos, ADamagedMaskCostsOneObjectItsScore) {
  std::ofstream(split() / "Annotations_6fps/clip_a/001/00004.png") << "no picture";
  const auto result = run_short({});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  const Json model = report()["models"][0];
  EXPECT_EQ(model["vos"]["scores"].size(), 2U);
  EXPECT_THAT(model["warnings"].dump(), HasSubstr("clip_a/001 has no score"));
}

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

std::vector<std::string> cleanups_of(const Json& model) {
  std::vector<std::string> cleaned;
  for (const Json& point : model["cleanups"])
    cleaned.push_back(get_text(point, "level") + " " + get_text(point, "name"));
  return cleaned;
}

TEST_F(BenchVos, PlanesOfHalvesAreWrittenOnce) {
  const auto setup = run_short({"--planes", "fp16", "--skip-inference"});
  ASSERT_EQ(setup.exit_code, 0) << setup.err;
  EXPECT_THAT(read_text(newest_run() / "run.log"),
              AllOf(HasSubstr("128 × 128 pixels, fp16"), HasSubstr("42 frames decoded, 0 prepared earlier")));
  ASSERT_EQ(planes().size(), 2U);
  for (const std::string& name : planes()) {
    EXPECT_THAT(name, HasSubstr("-128-fp16-"));
    EXPECT_EQ(fs::file_size(folder_ / "preprocessed_data/planes" / name),
              4096U + kFrames * 3 * 128 * 128 * 2);
  }
  const auto halves = run_short({"--planes", "fp16"});
  ASSERT_EQ(halves.exit_code, 0) << halves.err;
  EXPECT_THAT(read_text(newest_run() / "run.log"), HasSubstr("0 frames decoded, 42 prepared earlier"));
  const Json of_halves = report();
  EXPECT_EQ(get_text(of_halves["options"]["vos"], "planes"), "fp16");
  EXPECT_EQ(get_text(of_halves["models"][0], "input"), "fp16[3,128,128]");
  // Another type is decoded again, and gives nearly the same masks.
  ASSERT_EQ(run_short({}).exit_code, 0);
  EXPECT_THAT(read_text(newest_run() / "run.log"), HasSubstr("42 frames decoded, 0 prepared earlier"));
  const auto score = [](const Json& document) {
    return document["models"][0]["vos"]["mean"]["j_and_f"].get<double>();
  };
  EXPECT_NEAR(score(of_halves), score(report()), 0.02);
}

TEST_F(BenchVos, ModelsOfAnotherNormalisationHaveTheirOwnHalves) {
  const fs::path manifest = folder_ / "weights/edgetam/manifest.json";
  auto document = parse_json(read_text(manifest), "manifest");
  ASSERT_TRUE(document);
  (*document)["mean"] = {0.5, 0.5, 0.5};
  write_text(manifest, to_text(*document));
  const Words models{"--dataset", "sav_val",           "--model",         "a=weights/sam2_base",
                     "--model",   "b=weights/edgetam", "--skip-inference"};
  ASSERT_EQ(run(joined({models, {"--planes", "fp16"}})).exit_code, 0);
  EXPECT_EQ(planes().size(), 4U);
  ASSERT_EQ(run(models).exit_code, 0);
  EXPECT_EQ(planes().size(), 6U);  // levels are the same for both
}

TEST_F(BenchVos, RunsDavis2017WithAllKindsOfPrompts) {
  add_davis_video("bear", 2, false);
  add_davis_video("dog", 1, false);
  add_davis_video("train_only", 1, false);
  fs::create_directories(folder_ / "davis/ImageSets/2017");
  write_text(folder_ / "davis/ImageSets/2017/val.txt", "bear\ndog\n");
  EXPECT_THAT(objects_of_davis(),
              testing::ElementsAre("points: bear/1 bear/2 dog/1", "box: bear/1 bear/2 dog/1",
                                   "mask: bear/1 bear/2 dog/1"));
}

TEST_F(BenchVos, RunsDavis2016WithAllKindsOfPrompts) {
  add_davis_video("bear", 1, true);
  add_davis_video("dog", 1, true);
  fs::create_directories(folder_ / "davis/ImageSets/480p");
  write_text(folder_ / "davis/ImageSets/480p/val.txt",
             "/JPEGImages/480p/dog/00000.jpg /Annotations/480p/dog/00000.png\n"
             "/JPEGImages/480p/dog/00001.jpg /Annotations/480p/dog/00001.png\n");
  EXPECT_THAT(objects_of_davis(), testing::ElementsAre("points: dog/1", "box: dog/1", "mask: dog/1"));
}

// Files of other projects.
TEST_F(BenchVos, RunsAFamilysFilesForTimeAndMemory) {
  copy_model("tracer/family_a", "sam2export");
  for (const char* type : {"uint8", "fp16"}) {
    const auto result = run({"--dataset", "sav_val", "--model", "other=weights/sam2export", "--model",
                             "net=weights/edgetam", "--warmup", "1", "--planes", type});
    ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
    EXPECT_THAT(result.out, AllOf(HasSubstr("ALGORITHM"), HasSubstr("not the reference"),
                                  HasSubstr("the memory of the prompt is evicted")));
    const Json document = report();
    const Json& other = document["models"][0];
    EXPECT_GT(other["fps"].get<double>(), 0);
    EXPECT_GT(other["memory"]["run_peak_bytes"].get<std::int64_t>(), 1 << 20);
    EXPECT_THAT(get_text(other["vos"], "label"), testing::StartsWith("not the reference algorithm: "));
    EXPECT_EQ(other["vos"]["clips"].size(), 2U);
    EXPECT_TRUE(other["vos"]["scores"].empty());
    EXPECT_FALSE(other["vos"]["mean"].contains("j_and_f"));
    EXPECT_FALSE(document["models"][1]["vos"].contains("label"));
    EXPECT_EQ(document["models"][1]["vos"]["scores"].size(), 3U);
    EXPECT_THAT(read_text(newest_run() / "report.md"),
                AllOf(HasSubstr("not the reference algorithm"), HasSubstr("run for time and memory only")));
    EXPECT_THAT(read_text(newest_run() / "report.html"), HasSubstr("not the reference algorithm"));
  }
}

TEST_F(BenchVos, RefusesFilesForSinglePictures) {
  copy_model("tracer/image_only", "pictures");
  for (const char* model : {"weights/pictures", "weights/pictures/decoder.onnx"}) {
    const auto result = run_short({}, std::string("sam=") + model);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("single pictures: there is no memory attention"),
                                  HasSubstr("export_vos.py")));
  }
  // Beside a model that can be used, it is a model that failed.
  const auto both = run({"--dataset", "sav_val", "--model", "sam=weights/pictures", "--model",
                         "net=weights/edgetam", "--warmup", "1"});
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_THAT(both.err, HasSubstr("single pictures"));
  EXPECT_EQ(get_text(report()["models"][1], "status"), "ok");
}

TEST_F(BenchVos, ObjectsTogetherHaveMemoryAfterEachObject) {
  const auto result = run_short({});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json model = report()["models"][0];
  EXPECT_EQ(model["vos"]["clips"].size(), 2U);
  std::vector<std::string> objects;
  for (const Json& end : model["vos"]["object_ends"]) {
    objects.push_back(get_text(end, "video") + "/" + get_text(end, "object"));
    EXPECT_GT(get_integer(end, "after_bytes").value_or(0), 1 << 20);
  }
  EXPECT_THAT(objects, testing::ElementsAre("clip_a/000", "clip_a/001", "clip_b/000"));
  EXPECT_THAT(cleanups_of(model), testing::ElementsAre("object clip_a/000", "object clip_a/001",
                                                       "video clip_a", "object clip_b/000", "video clip_b"));
  EXPECT_EQ(model["frames"].get<int>(), 2 * kFrames);  // frames of objects alone do not count
  EXPECT_TRUE(model["vos"]["leaks"].empty()) << model["vos"]["leaks"];
  EXPECT_THAT(read_text(newest_run() / "report.md"), HasSubstr("Memory after each object"));
}

TEST_F(BenchVos, ObjectsAloneAreCleanedAfterEachObject) {
  const auto result =
      run_short({"--vos-objects", "alone", "--prompt", "mask", "--vos-profile", "evaluation"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json model = report()["models"][0];
  const Json& clips = model["vos"]["clips"];
  ASSERT_EQ(clips.size(), 3U);
  EXPECT_EQ(get_text(clips[1], "object"), "001");
  EXPECT_THAT(cleanups_of(model), testing::ElementsAre("object clip_a/000", "object clip_a/001",
                                                       "video clip_a", "object clip_b/000", "video clip_b"));
  EXPECT_TRUE(model["vos"]["leaks"].empty()) << model["vos"]["leaks"];
  EXPECT_EQ(model["vos"]["loads_bytes"].size(), 3U);
}

// Each test plants a leak of 4 MiB at one level. Of 6 videos with 2 objects, the worker cleans up after each
// clip, and with objects together also after each object. A cleaning is 5 calls of malloc_trim(): for each
// graph, and the worker's own. Then come 3 unloadings of the model.
class BenchVosLeaks : public BenchVos {
 protected:
  void SetUp() override {
    BenchVos::SetUp();
    for (const char* name : {"clip_b", "clip_c", "clip_d", "clip_e", "clip_f"}) add_video(name, 2, 5);
    add_video("clip_a", 2, 5);
  }
  std::vector<std::string> leaks_with(const char* calls, const char* objects = "alone") {
    CommandOptions options;
    options.environment = {{"LD_PRELOAD", HEADROOM_LEAKING_TRIM}, {"HEADROOM_TEST_LEAK", calls}};
    const auto result = run({"--dataset", "sav_val", "--model", "net=weights/edgetam", "--warmup", "1",
                             "--vos-objects", objects, "--max-frames", "5"},
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
TEST_F(BenchVosLeaks, OfAnObjectIsNamedWithObjectsTogether) {
  EXPECT_THAT(leaks_with("1 5", "together"), testing::ElementsAre("object"));
}
TEST_F(BenchVosLeaks, OfAVideoIsNamedWithObjectsTogether) {
  EXPECT_THAT(leaks_with("1 15", "together"), testing::ElementsAre("video"));
}
TEST_F(BenchVosLeaks, OfAModelIsNamedWithObjectsTogether) {
  EXPECT_THAT(leaks_with("91 1", "together"), testing::ElementsAre("model"));
}
TEST_F(BenchVosLeaks, NoneIsNamedWithoutOneWithObjectsTogether) {
  EXPECT_THAT(leaks_with("1000 1", "together"), testing::ElementsAre());
}

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
  EXPECT_EQ(no_graph.exit_code, 2) << no_graph.err;
  EXPECT_THAT(no_graph.err, HasSubstr("memory_encoder"));
  const auto no_model = run_short({}, "net=empty");
  EXPECT_EQ(no_model.exit_code, 2) << no_model.err;
  EXPECT_THAT(no_model.err, HasSubstr("it has no graphs"));
}

TEST_F(BenchVos, ReportsAreMarkdownCsvAndHtml) {
  ASSERT_EQ(run_short({}).exit_code, 0);
  const std::string markdown = read_text(newest_run() / "report.md");
  EXPECT_THAT(markdown, AllOf(HasSubstr("Peak by resolution and objects"), HasSubstr("96 × 64"),
                              HasSubstr("Memory by clip"), HasSubstr("Reference J&F")));
  EXPECT_THAT(read_text(newest_run() / "summary.csv"),
              HasSubstr(",j_and_f,j_mean,f_mean,growth_per_frame_bytes,vos_label\r\n"));
  EXPECT_TRUE(fs::exists(newest_run() / "report.html"));
}

// The worker ends before it sends a chosen event.
class BenchVosDeaths : public BenchVos {
 protected:
  CommandResult run_until(const std::string& end, Words words = {}) {
    CommandOptions options;
    options.environment = {{"LD_PRELOAD", HEADROOM_DYING_WORKER}, {"HEADROOM_TEST_DIE", end}};
    return run(joined({{"--dataset", "sav_val", "--model", "net=weights/edgetam", "--warmup", "1"}, words}),
               options);
  }
};

TEST_F(BenchVosDeaths, InALaterVideoIsNamedAndKeepsTheFinishedOne) {
  ASSERT_EQ(run_short({}).exit_code, 0);
  const Json complete = report()["models"][0];
  const auto result = run_until(R"(kill 2 "event":"vos_clip")");
  EXPECT_EQ(result.exit_code, 1);
  const std::string reason = "it was tracking video clip_b (1 object, at least 21 of 21 frames done)";
  EXPECT_THAT(result.err, AllOf(HasSubstr("crashed while running: killed from outside (SIGKILL)"),
                                HasSubstr(reason), Not(HasSubstr("while unloading"))));
  EXPECT_THAT(result.out, AllOf(HasSubstr("it finished 1 of 2 videos"), HasSubstr("J&F")));
  const Json model = report()["models"][0];
  EXPECT_EQ(get_text(model, "status"), "crashed");
  EXPECT_EQ(get_text(model, "died_in"), "warm");
  EXPECT_THAT(get_text(model, "error"), HasSubstr(reason));
  const Json& vos = model["vos"];
  ASSERT_EQ(vos["clips"].size(), 1U);
  EXPECT_EQ(get_text(vos["clips"][0], "video"), "clip_a");
  EXPECT_GT(vos["clips"][0]["fps"].get<double>(), 0);
  EXPECT_GT(get_integer(vos["clips"][0], "peak_bytes").value_or(0), 1 << 20);
  EXPECT_EQ(vos["object_ends"].size(), 2U);
  ASSERT_EQ(vos["scores"].size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(vos["scores"][i], complete["vos"]["scores"][i]);
  ASSERT_EQ(model["annotated_images"].size(), 1U);
  EXPECT_TRUE(fs::exists(newest_run() / model["annotated_images"][0].get<std::string>()));
  EXPECT_FALSE(fs::exists(newest_run() / "net.masks"));
  EXPECT_THAT(read_text(folder_ / "outputs/jetson_benchmark_summary.csv"), HasSubstr("clip_a,001,net"));
}

TEST_F(BenchVosDeaths, OfAnObjectAloneKeepsTheFinishedObject) {
  const auto result = run_until(R"(oom 2 "event":"vos_clip")", {"--vos-objects", "alone"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("out of memory while running: an allocation was refused"),
                    HasSubstr("it was tracking object 001 of video clip_a (at least 21 of 21 frames done)")));
  EXPECT_THAT(result.out, HasSubstr("it finished 1 of 3 objects"));
  const Json scores = report()["models"][0]["vos"]["scores"];
  ASSERT_EQ(scores.size(), 1U);
  EXPECT_EQ(get_text(scores[0], "object"), "000");
}

TEST_F(BenchVosDeaths, AfterTheLastVideoKeepsAllScores) {
  const auto unloading = run_until(R"(kill 1 "phase":"unloaded")");
  EXPECT_EQ(unloading.exit_code, 1);
  EXPECT_THAT(unloading.err, AllOf(HasSubstr("crashed while unloading"), Not(HasSubstr("tracking"))));
  EXPECT_EQ(report()["models"][0]["vos"]["scores"].size(), 3U);
  const auto reloading = run_until(R"(kill 2 "event":"vos_load")");
  EXPECT_THAT(reloading.err, HasSubstr("it was loading the model again"));
  EXPECT_EQ(report()["models"][0]["vos"]["scores"].size(), 3U);
}

// Frames without their masks would count as empty predictions.
TEST_F(BenchVosDeaths, AFullDiskCostsScoresAndGivesNoneThatAreTooLow) {
  const auto result = run_until("full 1 1 4 0 ");  // the mask of the second video, frame 4, first object
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no scores from video clip_b on: its masks were not written"));
  const Json model = report()["models"][0];
  EXPECT_EQ(model["vos"]["clips"].size(), 2U);
  const Json& scores = model["vos"]["scores"];
  ASSERT_EQ(scores.size(), 2U);
  for (const Json& score : scores) EXPECT_EQ(get_text(score, "video"), "clip_a");
}

// RLIMIT_DATA counts reserved memory, not resident memory.
TEST_F(BenchVos, EstimatesWhatTheLimitCounts) {
  const auto setup = run_short({"--skip-inference", "--mem-limit", "1GiB", "--limit-mechanism", "rlimit"});
  ASSERT_EQ(setup.exit_code, 0) << setup.err;
  const auto memory_of = [](const Json& model, const char* figure) {
    return get_integer(model["memory"], figure).value_or(0);
  };
  const Json model = report()["models"][0];
  const std::int64_t counted = memory_of(model, "data_peak_bytes");
  ASSERT_GT(counted, 0);
  ASSERT_GT(memory_of(model, "run_peak_bytes"), memory_of(model, "load_peak_bytes"));
  const auto result = run_short({"--skip-setup", "--mem-limit", "20MiB", "--limit-mechanism", "rlimit"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("clip_a: 96 × 64 with 2 objects would need about " +
                                    format_bytes(Bytes{counted}) + ", above the limit of 20.0 MiB"));
}

constexpr const char* kDieWithTwoObjects = R"(oom 1 "event":"vos_trial","objects":2)";

TEST_F(BenchVosDeaths, InATrialWithManyObjectsLeavesTheirVideosOut) {
  const auto result = run_until(kDieWithTwoObjects);
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  const std::string reason =
      "96 × 64 with 2 objects would not fit: in a trial with 2 objects, an allocation was refused";
  EXPECT_THAT(result.err, AllOf(HasSubstr("net: out of memory with 2 objects: an allocation was refused"),
                                HasSubstr("trying 1 object"), HasSubstr("clip_a: " + reason)));
  EXPECT_THAT(result.out, HasSubstr("1 video left out"));
  const Json vos = report()["models"][0]["vos"];
  ASSERT_EQ(vos["left_out"].size(), 1U);
  EXPECT_THAT(get_text(vos["left_out"][0], "why"), HasSubstr(reason));
  ASSERT_EQ(vos["clips"].size(), 1U);
  EXPECT_EQ(get_text(vos["clips"][0], "video"), "clip_b");
  // The prepared data keep it.
  const auto again = run_short({"--skip-setup"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(report()["models"][0]["vos"]["clips"].size(), 1U);
  const auto larger = run_short({"--skip-setup", "--mem-limit", "2GiB", "--limit-mechanism", "none"});
  EXPECT_EQ(larger.exit_code, 2);
  EXPECT_THAT(larger.err, HasSubstr("ran out of memory under another"));
}

TEST_F(BenchVosDeaths, InTheSmallestTrialFailsTheModel) {
  fs::remove_all(split() / "JPEGImages_24fps/clip_b");
  const auto many = run_until(kDieWithTwoObjects);
  EXPECT_EQ(many.exit_code, 1);
  EXPECT_THAT(many.err, AllOf(HasSubstr("net: oom: an allocation was refused"),
                              HasSubstr("it was tracking 2 objects together, of which one fits")));
  EXPECT_EQ(run_until(kDieWithTwoObjects, {"--vos-objects", "alone"}).exit_code, 0);
  const auto one = run_until(R"(oom 1 "event":"vos_trial")");
  EXPECT_EQ(one.exit_code, 1);
  EXPECT_THAT(one.err, AllOf(HasSubstr("net: oom: an allocation was refused"), Not(HasSubstr("trying 1"))));
}

TEST_F(BenchVos, RefusesMaskPromptsWithoutTheirWeightsInTheSetup) {
  const fs::path manifest = folder_ / "weights/edgetam/manifest.json";
  auto document = parse_json(read_text(manifest), "manifest");
  ASSERT_TRUE(document);
  ASSERT_EQ(document->erase("mask_downsample"), 1U);
  write_text(manifest, to_text(*document));
  const std::string reason = "mask prompts are not supported: the model's manifest has no mask_downsample";
  const auto result = run_short({"--prompt", "mask"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr(reason), HasSubstr("use --prompt points or --prompt box")));
  EXPECT_TRUE(planes().empty());  // no frame was decoded
  // Beside a model that can be used, it fails before the measurement.
  const auto both = run_short({"--model", "masks=weights/edgetam,prompt=mask", "--skip-inference"});
  EXPECT_EQ(both.exit_code, 1) << both.err;
  EXPECT_THAT(both.err, HasSubstr("masks: failed: " + reason));
  EXPECT_EQ(run_short({"--prompt", "box"}).exit_code, 0);
}

}  // namespace
}  // namespace headroom::test
