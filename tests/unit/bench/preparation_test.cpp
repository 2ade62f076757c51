#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/files.h"
#include "base/json.h"
#include "bench/conductor/setup_phase.h"
#include "bench/prepared_data.h"
#include "media/source_scan.h"
#include "support/test_support.h"
#include "types/external_data.h"

namespace headroom::bench {
namespace {

Result<std::string> read_again(const PreparedModel& model) { return file_fingerprint(model.path); }

class PreparedDataTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_ / "images");
    test::write_text(folder_ / "images/a.jpg", "not decoded here");
    test::write_text(folder_ / "model.onnx", "weights");
    data_.host = this_host();
    SourceMetadata source;
    source.spec = {SourceKind::image_dir, (folder_ / "images").string(), 0};
    source.fingerprint = *media::source_fingerprint(source.spec);
    SourceSequence sequence;
    sequence.name = "images";
    sequence.path = (folder_ / "images").string();
    sequence.images = {"a.jpg"};
    sequence.frames = 1;
    sequence.width = sequence.height = 8;
    source.sequences = {sequence};
    source.total_frames = 1;
    source.largest_frame = Bytes{192};
    data_.source = source;
    PreparedModel model;
    model.name = "m";
    model.path = (folder_ / "model.onnx").string();
    model.fingerprint = *file_fingerprint(model.path);
    model.backend = "onnxruntime";
    model.status = ModelStatus::ok;
    data_.models = {model};
    options_.models = {{"m", model.path, "", ""}};
    options_.prepared_dir = (folder_ / "prepared").string();
  }
  std::string reason() const {
    const auto problem = why_not_usable(data_, options_, read_again);
    return problem ? problem->why : "";
  }

  test::TemporaryFolder folder_;
  PreparedData data_;
  BenchOptions options_;
};

TEST_F(PreparedDataTest, IsReadBackAsWritten) {
  data_.models[0].asked_settings = options_.models[0].settings = "arena=off";
  data_.models[0].asked_precision = options_.models[0].precision = Precision::fp32;
  ASSERT_TRUE(write_prepared_data(options_.prepared_dir, data_));
  const auto read = read_prepared_data(options_.prepared_dir);
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(read->models[0].path, data_.models[0].path);
  EXPECT_EQ(read->models[0].asked_settings, "arena=off");
  ASSERT_TRUE(read->source);
  EXPECT_EQ(read->source->fingerprint, data_.source->fingerprint);
  EXPECT_EQ(read->source->sequences[0].frames, 1);
  EXPECT_TRUE(read->source->sequences[0].images.empty()) << "the decoder has them from metadata.json";
  EXPECT_THAT(test::read_text(metadata_path(options_.prepared_dir)), testing::HasSubstr("a.jpg"));
  EXPECT_FALSE(why_not_usable(*read, options_, read_again));
}

TEST_F(PreparedDataTest, ReadsNoSourceIfNoneWasPrepared) {
  const auto missing = read_prepared_data(folder_ / "nowhere");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().sentence(), testing::HasSubstr("run without --skip-setup"));
  ASSERT_TRUE(write_prepared_data(options_.prepared_dir, data_));
  data_.source.reset();
  ASSERT_TRUE(write_prepared_data(options_.prepared_dir, data_));
  const auto read = read_prepared_data(options_.prepared_dir);
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_FALSE(read->source);
  EXPECT_FALSE(why_not_usable(*read, options_, read_again));
  options_.source = SourceSpec{SourceKind::video, "/v.mp4", 0};
  EXPECT_EQ(why_not_usable(*read, options_, read_again)->why, "it was prepared without --source");
}

TEST_F(PreparedDataTest, RejectsStaleOrForeignDataWithTheReason) {
  EXPECT_EQ(reason(), "");
  struct Case {
    std::function<void()> change;
    const char* reason;
  };
  const PreparedData data = data_;
  const BenchOptions options = options_;
  for (const Case& row : {
           Case{[&] {
                  options_.source = SourceSpec{SourceKind::video, "/v.mp4", 0};
                },
                "not video=/v.mp4"},
           {[&] { options_.precision = Precision::bf16; }, "m was prepared with another --precision"},
           {[&] { options_.models[0].settings = "arena=off"; }, "m was prepared with other runtime settings"},
           {[&] { options_.threads = 2; }, "--threads 0, not 2"},
           {[&] { options_.tune = true; }, "without --tune"},
           {[&] {
              data_.options.tune = true;
              data_.options.memory_limit = options_.memory_limit = mebibytes(64);
              data_.options.limit_mechanism = "watchdog";
            },
            "its settings were tuned under another --mem-limit, --gpu-mem-limit or --limit-mechanism"},
           {[&] {
              data_.models[0].status = ModelStatus::oom;
              data_.options.memory_limit = mebibytes(16);
            },
            "another --mem-limit"},
           {[&] {
              data_.models[0].status = ModelStatus::timeout;
              data_.options.timeout = {5'000'000'000};
            },
            "another --timeout"},
           {[&] { options_.image_size = 320; }, "it was prepared with --imgsz 640, not 320"},
           {[&] { options_.models[0].name = "other"; }, "it does not contain model other"},
           {[&] { options_.task = "yolox"; }, "model m was prepared for another --task"},
           {[&] { data_.host = "another, Cortex-A78AE"; },
            "it was prepared on another machine (another, Cortex-A78AE)"},
           {[&] { test::write_text(folder_ / "images/b.jpg", "one more"); }, "images has changed since"},
       }) {
    row.change();
    EXPECT_THAT(reason(), testing::HasSubstr(row.reason));
    data_ = data;
    options_ = options;
  }
  std::filesystem::remove(folder_ / "images/b.jpg");
  data_.options.tune = true;
  data_.options.memory_limit = options_.memory_limit = mebibytes(64);
  EXPECT_EQ(reason(), "") << "tuned under the same limit";
  test::write_text(folder_ / "model.onnx", "other weights");
  EXPECT_THAT(reason(), testing::HasSubstr("model.onnx has changed since"));
}

PreparedModel prepared() {
  PreparedModel model;
  model.name = "m";
  model.path = "m.onnx";
  model.status = ModelStatus::ok;
  model.file_size = mebibytes(4);
  ModelResult trial;
  trial.status = ModelStatus::ok;
  trial.memory.loaded = mebibytes(40);
  trial.memory.run_peak = mebibytes(60);
  model.trial = trial;
  return model;
}

// setup.json keeps the memory of the warm-up, the only memory figures with --skip-inference. The measured
// process gets the outputs that a run in the setup phase showed, and needs no such run.
TEST(SetupResults, KeepsMemoryAndLearntOutputs) {
  PreparedModel model = prepared();
  model.asked_precision = Precision::fp16;
  model.outputs = {{"output", ElementType::float32, {1, 8400, 85}, {"", "", ""}}};
  const auto again = message_from_json<PreparedModel>(message_to_json(model));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->asked_precision, Precision::fp16);
  ASSERT_EQ(again->outputs.size(), 1U);
  EXPECT_EQ(again->outputs[0].describe(), "float32[1,8400,85]");
  const ModelResult result = result_of_setup(*again);
  EXPECT_EQ(result.memory.loaded, mebibytes(40));
  EXPECT_EQ(result.memory.run_peak, mebibytes(60));
  EXPECT_EQ(result.file_size, mebibytes(4));
}

TEST(SetupResults, DropsWarmUpMemoryOfAModelNotReached) {
  EXPECT_EQ(not_yet_measured(prepared()).memory, ModelMemory{});
  PreparedModel failed = prepared();
  failed.status = ModelStatus::oom;
  EXPECT_EQ(not_yet_measured(failed).memory.run_peak, mebibytes(60))
      << "a failed model is not measured again";
}

}  // namespace

namespace {
using test::TemporaryFolder;
using test::write_text;
using testing::ElementsAre;

// An entry of external_data as protobuf encodes it.
std::string entry(const std::string& key, const std::string& value) {
  const auto text = [](char tag, const std::string& words) {
    std::string field{tag};
    if (words.size() >= 0x80) field += static_cast<char>(0x80 | (words.size() & 0x7F));
    field += static_cast<char>(words.size() >= 0x80 ? words.size() >> 7 : words.size());
    return field + words;
  };
  return text(0x0A, key) + text(0x12, value);
}

std::set<std::string> found_in(const std::string& bytes, std::size_t piece) {
  ExternalDataFinder finder;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    finder.take(std::string_view(bytes).substr(at, piece));
  return finder.names();
}

TEST(ExternalDataFinder, FindsNamesAcrossPieces) {
  const std::string long_name = std::string(200, 'w') + ".bin";
  const std::string bytes = "head\x0A" + entry("location", "w.bin") + std::string(100, '\x0A') +
                            entry("offset", "4096") + entry("location", "parts/b.bin") +
                            entry("location", long_name) + entry("location", "./w.bin") + "tail";
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{64}, bytes.size()})
    EXPECT_THAT(found_in(bytes, piece), ElementsAre("parts/b.bin", "w.bin", long_name)) << piece;
}

TEST(ExternalDataFinder, IgnoresNamesOutsideTheModelsFolder) {
  for (const char* name : {"/etc/passwd", "../w.bin", "a/../../w.bin", ""})
    EXPECT_TRUE(found_in(entry("location", name), 64).empty()) << name;
  EXPECT_TRUE(found_in(entry("location", std::string("w\0x", 3)), 64).empty());
}

// A length without end, a length that is too long, and a file that ends in the middle of an entry.
TEST(ExternalDataFinder, SkipsBytesThatOnlyLookLikeAnEntry) {
  const std::string key = entry("location", "").substr(0, 10);
  const std::string real = entry("location", "w.bin");
  for (const std::string& broken :
       {key + "\x12\xFF\xFF\xFF\xFF", key + "\x12\xFF\x7F", key + "\x1A\x05other", key + key})
    EXPECT_THAT(found_in(broken + real, 5), ElementsAre("w.bin"));
  EXPECT_TRUE(found_in(key + "\x12\x7Fshort", 5).empty());
}

TEST(ModelFiles, IncludesTheWeightsNextToTheModel) {
  TemporaryFolder folder;
  const auto model = folder / "m.onnx";
  write_text(model, "graph" + entry("location", "w.bin") + entry("location", "absent.bin"));
  write_text(folder / "w.bin", std::string(1000, 'a'));
  const auto read = [&] { return read_model_files(model, [] {}); };
  const auto first = read();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->size.count, static_cast<std::int64_t>(std::filesystem::file_size(model)) + 1000);
  write_text(folder / "w.bin", std::string(1000, 'b'));
  EXPECT_NE(read()->fingerprint, first->fingerprint);
  EXPECT_EQ(read()->fingerprint.size(), first->fingerprint.size());
}

TEST(ModelFiles, UsesTheFilesFingerprintForASingleFile) {
  TemporaryFolder folder;
  write_text(folder / "m.onnx", "graph and weights");
  const auto files = read_model_files(folder / "m.onnx", [] {});
  ASSERT_TRUE(files);
  EXPECT_EQ(files->fingerprint, *file_fingerprint(folder / "m.onnx"));
  EXPECT_EQ(files->size, Bytes{17});
  EXPECT_FALSE(read_model_files(folder / "none.onnx", [] {}));
}

}  // namespace

}  // namespace headroom::bench
