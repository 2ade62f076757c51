#include "bench/prepared_data.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "media/source_scan.h"
#include "support/test_support.h"

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
    data_.image_size = 640;
    data_.device = "cpu";
    data_.max_frames = 300;
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

TEST_F(PreparedDataTest, RejectsAnotherPrecision) {
  EXPECT_EQ(reason(), "");
  options_.precision = Precision::bf16;
  EXPECT_EQ(reason(), "model m was prepared with another --precision");
  options_.models[0].precision = Precision::fp32;
  data_.models[0].asked_precision = Precision::fp32;
  EXPECT_EQ(reason(), "");
}

TEST_F(PreparedDataTest, RejectsOtherSettings) {
  options_.models[0].settings = "arena=off";
  EXPECT_EQ(reason(), "model m was prepared with other runtime settings");
  data_.models[0].asked_settings = "arena=off";
  EXPECT_EQ(reason(), "");
  ASSERT_TRUE(write_prepared_data(options_.prepared_dir, data_));
  EXPECT_EQ(read_prepared_data(options_.prepared_dir)->models[0].asked_settings, "arena=off");
}

TEST_F(PreparedDataTest, IsReadBackAsWritten) {
  ASSERT_TRUE(write_prepared_data(options_.prepared_dir, data_));
  const auto read = read_prepared_data(options_.prepared_dir);
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(read->models[0].path, data_.models[0].path);
  ASSERT_TRUE(read->source);
  EXPECT_EQ(read->source->fingerprint, data_.source->fingerprint);
  EXPECT_EQ(read->source->sequences[0].frames, 1);
  EXPECT_TRUE(read->source->sequences[0].images.empty()) << "the decoder has them from metadata.json";
  EXPECT_THAT(test::read_text(metadata_path(options_.prepared_dir)), testing::HasSubstr("a.jpg"));
  EXPECT_FALSE(why_not_usable(*read, options_, read_again));
}

TEST_F(PreparedDataTest, ReadsNoSourceIfNoneWasPrepared) {
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

TEST_F(PreparedDataTest, ReportsAMissingFolder) {
  const auto read = read_prepared_data(folder_ / "nowhere");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().sentence(), testing::HasSubstr("run without --skip-setup"));
}

TEST_F(PreparedDataTest, RejectsStaleOrForeignDataWithTheReason) {
  EXPECT_EQ(reason(), "");
  options_.source = SourceSpec{SourceKind::video, "/v.mp4", 0};
  EXPECT_THAT(reason(), testing::HasSubstr("not video=/v.mp4"));
  options_.source.reset();
  options_.threads = 2;
  EXPECT_THAT(reason(), testing::HasSubstr("--threads 0, not 2"));
  options_.threads = 0;
  options_.tune = true;
  EXPECT_THAT(reason(), testing::HasSubstr("without --tune"));
  options_.tune = false;
  data_.tuned = true;
  data_.memory_limit = options_.memory_limit = mebibytes(64);
  data_.limit_mechanism = "watchdog";
  EXPECT_EQ(reason(), "its settings were tuned under another --limit-mechanism");
  data_.limit_mechanism = options_.limit_mechanism;
  EXPECT_EQ(reason(), "");
  data_.tuned = false;
  data_.memory_limit = options_.memory_limit = std::nullopt;
  data_.models[0].status = ModelStatus::oom;
  data_.memory_limit = mebibytes(16);
  EXPECT_THAT(reason(), testing::HasSubstr("another --mem-limit"));
  data_.models[0].status = ModelStatus::timeout;
  data_.timeout = {5'000'000'000};
  EXPECT_THAT(reason(), testing::HasSubstr("another --timeout"));
  data_.models[0].status = ModelStatus::ok;
  EXPECT_EQ(reason(), "");
  options_.image_size = 320;
  EXPECT_EQ(reason(), "it was prepared with --imgsz 640, not 320");
  options_.image_size = 640;
  options_.models[0].name = "other";
  EXPECT_EQ(reason(), "it does not contain model other");
  options_.models[0].name = "m";
  options_.task = "yolox";
  EXPECT_EQ(reason(), "model m was prepared for another --task");
  options_.task.clear();
  data_.host = "another, Cortex-A78AE";
  EXPECT_EQ(reason(), "it was prepared on another machine (another, Cortex-A78AE)");
  data_.host = this_host();
  test::write_text(folder_ / "model.onnx", "other weights");
  EXPECT_THAT(reason(), testing::HasSubstr("model.onnx has changed since"));
  test::write_text(folder_ / "model.onnx", "weights");
  test::write_text(folder_ / "images/b.jpg", "one more");
  EXPECT_THAT(reason(), testing::HasSubstr("images has changed since"));
}

}  // namespace
}  // namespace headroom::bench
