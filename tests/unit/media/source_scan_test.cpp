#include "media/source_scan.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <new>

#include "base/json.h"
#include "support/scoped_environment.h"
#include "support/test_support.h"
#include "unit/inference/results.h"
#include "unit/media/media_test_support.h"
#include "unit/media/stream_test_support.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;

class SourceScan : public testing::Test {
 protected:
  Result<SourceMetadata> scan(const ScanLimits& limits = {}) const {
    return scan_source(engine(), {SourceKind::image_dir, folder_.path().string(), 0}, limits);
  }
  Result<SourceMetadata> scan_video(const std::string& name, const ScanLimits& limits = {}) const {
    return scan_source(engine(), {SourceKind::video, (folder_ / name).string(), 0}, limits);
  }
  test::TemporaryFolder folder_;
};

std::vector<std::string> shown(const std::vector<SkippedItem>& items) {
  std::vector<std::string> texts;
  for (const SkippedItem& item : items) texts.push_back(item.name + ": " + item.reason);
  return texts;
}
std::vector<std::string> ids_of(const SourceSequence& sequence) {
  std::vector<std::string> ids;
  for (const SourceObject& object : sequence.objects) ids.push_back(object.id);
  return ids;
}

TEST_F(SourceScan, ReportsUndecodableFramesAndKeepsTheRest) {
  write_image(folder_ / "1.png", test_picture(40, 30));
  write_image(folder_ / "3.jpg", test_picture(80, 60));
  const std::string whole = test::read_text(folder_ / "3.jpg");
  test::write_text(folder_ / "2.jpg", whole.substr(0, whole.size() / 2));
  test::write_text(folder_ / "4.png", "not a picture");
  const auto metadata = test::value_of(scan());
  ASSERT_EQ(metadata.sequences.size(), 1U);
  EXPECT_THAT(metadata.sequences[0].images, ElementsAre("1.png", "3.jpg"));
  EXPECT_EQ(metadata.sequences[0].width, 80);
  EXPECT_EQ(metadata.total_frames, 2);
  EXPECT_EQ(metadata.largest_frame.count, 80 * 60 * 3);
  EXPECT_THAT(shown(metadata.skipped), ElementsAre("2.jpg: truncated JPEG: it ends before its end marker",
                                                   "4.png: its content is not JPEG, PNG, BMP, WebP or TIFF"));
  EXPECT_EQ(metadata.fingerprint, *source_fingerprint(metadata.spec));
  test::value_of(source_from_json(*parse_json(to_text(to_json(metadata)))));
}

// 1000 × 800 pixels need 2.3 MiB as a frame. With 16 bits and alpha, decoding needs 6.9 MiB.
TEST_F(SourceScan, ReportsAPictureTooLargeForTheWorkspaceAndKeepsTheRest) {
  write_image(folder_ / "1.png", test_picture(40, 30));
  write_image(folder_ / "2.png", test_picture(1000, 800));
  cv::Mat deep(800, 1000, CV_16UC4, cv::Scalar(1, 2, 3, 4));
  write_image(folder_ / "3.png", deep);
  engine();  // sets the plug-in's folder; the bounds apply to a separate engine
  const auto bounded = test::value_of(load_media_engine());
  const SourceSpec spec{SourceKind::image_dir, folder_.path().string(), 0};
  std::vector<std::string> read;
  const auto note = [&](const std::string& name) { read.push_back(name); };
  bounded->bound_memory(mebibytes(4));
  auto metadata = scan_source(*bounded, spec, {}, {}, note);
  ASSERT_TRUE(metadata) << metadata.error().sentence();
  EXPECT_THAT(metadata->sequences[0].images, ElementsAre("1.png", "2.png"));
  EXPECT_THAT(read, ElementsAre("1.png", "2.png", "3.png"));
  ASSERT_EQ(metadata->skipped.size(), 1U);
  EXPECT_EQ(metadata->skipped[0].name, "3.png");
  EXPECT_THAT(
      metadata->skipped[0].reason,
      testing::AllOf(testing::HasSubstr("1000 x 800 pixels of 64 bits needs 6.9 MiB"),
                     testing::HasSubstr("leaves only 4.0 MiB"), testing::HasSubstr("raise --workspace")));
  bounded->bound_memory(mebibytes(1));
  metadata = scan_source(*bounded, spec, {});
  ASSERT_TRUE(metadata) << metadata.error().sentence();
  EXPECT_THAT(metadata->sequences[0].images, ElementsAre("1.png"));
  bounded->bound_memory(Bytes{10});
  EXPECT_THAT(scan_source(*bounded, spec, {}).error().sentence(),
              testing::HasSubstr("the first is 1.png: the file alone needs"));
}

// An engine that runs out of memory at one file.
class ShortOfMemory : public MediaEngine {
 public:
  explicit ShortOfMemory(MediaEngine& whole) : whole_(whole) {}
  std::string version() const override { return whole_.version(); }
  Result<Decoded> decode_image_into(const std::string& path, const AllocateFrame& allocate_frame) override {
    if (path.ends_with("2.png")) throw std::bad_alloc();
    return whole_.decode_image_into(path, allocate_frame);
  }
  Result<std::vector<int>> read_mask_ids(const std::string& path) override {
    return whole_.read_mask_ids(path);
  }
  Result<LabelPicture> read_labels(const std::string& path) override { return whole_.read_labels(path); }
  Status write_labels(const LabelPicture& labels, const std::string& path) override {
    return whole_.write_labels(labels, path);
  }
  Status write_annotated(const Picture& picture, const FrameFindings& findings,
                         const std::vector<std::string>& class_names, const std::string& path) override {
    return whole_.write_annotated(picture, findings, class_names, path);
  }

 private:
  MediaEngine& whole_;
};

TEST_F(SourceScan, FailedAllocationSkipsOnlyItsFrame) {
  for (const char* name : {"1.png", "2.png", "3.png"}) write_image(folder_ / name, test_picture(40, 30));
  ShortOfMemory poor(engine());
  const auto metadata =
      test::value_of(scan_source(poor, {SourceKind::image_dir, folder_.path().string(), 0}, {}));
  EXPECT_THAT(metadata.sequences[0].images, ElementsAre("1.png", "3.png"));
  EXPECT_THAT(shown(metadata.skipped),
              ElementsAre("2.png: there is not enough memory to decode it; raise --workspace"));
}

TEST_F(SourceScan, ReportsVideosInAnImageFolder) {
  write_image(folder_ / "1.png", test_picture(40, 30));
  for (const char* name : {"b.mp4", "a.avi"}) test::write_text(folder_ / name, "not looked at");
  const auto metadata = test::value_of(scan());
  EXPECT_EQ(metadata.total_frames, 1);
  EXPECT_THAT(shown(metadata.skipped),
              ElementsAre("a.avi and 1 more: videos in a folder of images are not read; use video=" +
                          folder_.path().string() + " to read them"));
}

TEST_F(SourceScan, LimitsCountUsableItems) {
  for (const char* name : {"b/1.png", "b/2.png", "b/3.png", "c/1.png", "d/1.png"})
    write_image(folder_ / name, test_picture(20, 20));
  fs::create_directory(folder_ / "a");
  test::write_text(folder_ / "a/1.png", "bad");
  test::write_text(folder_ / "b/1.png", "bad");
  const auto metadata = test::value_of(scan({2, 0, 1}));
  ASSERT_EQ(metadata.sequences.size(), 2U);
  EXPECT_THAT(metadata.sequences[0].images, ElementsAre("2.png"));
  EXPECT_EQ(metadata.sequences[1].name, "c");
  EXPECT_THAT(shown(metadata.skipped),
              ElementsAre(testing::StartsWith("a/1.png: "), testing::StartsWith("b/1.png: ")));
}

TEST_F(SourceScan, ReportsTheFirstFailureIfNothingIsUsable) {
  test::write_text(folder_ / "1.png", "bad");
  EXPECT_EQ(scan().error().sentence(),
            "no frame of image_dir=" + folder_.path().string() +
                " can be decoded: 1.png: its content is not JPEG, PNG, BMP, WebP or TIFF");
  test::write_text(folder_ / "2.png", "");
  EXPECT_EQ(scan().error().why,
            "all 2 files failed; the first is 1.png: its content is not JPEG, PNG, BMP, WebP or TIFF");
}

TEST_F(SourceScan, SkipsNamesThatAreNotUtf8) {
  write_image(folder_ / "good.png", test_picture(20, 20));
  std::error_code refused;
  fs::copy_file(folder_ / "good.png", folder_ / "b\xE4r.png", refused);
  if (refused) GTEST_SKIP() << "the file system accepts only UTF-8 names";
  fs::copy_file(folder_ / "good.png", folder_ / "b\u00E4r.png");
  const auto metadata = scan();
  ASSERT_TRUE(metadata);
  EXPECT_THAT(metadata->sequences[0].images, ElementsAre("b\u00E4r.png", "good.png"));
  EXPECT_THAT(shown(metadata->skipped), ElementsAre("b\xE4r.png: its name is not valid UTF-8; rename it"));
}

TEST_F(SourceScan, ScansASingleImage) {
  write_image(folder_ / "1.png", test_picture(40, 30));
  write_image(folder_ / "2.png", test_picture(40, 30));
  const auto metadata = scan_source(engine(), {SourceKind::image_dir, (folder_ / "2.png").string(), 0}, {});
  ASSERT_TRUE(metadata);
  EXPECT_EQ(metadata->total_frames, 1);
  EXPECT_THAT(metadata->sequences[0].images, ElementsAre("2.png"));
}

// --- objects

cv::Mat mask_of(std::initializer_list<int> values) {
  cv::Mat mask = cv::Mat::zeros(20, 20, CV_8UC1);
  int at = 0;
  for (const int value : values) mask(cv::Rect(4 * at++, 5, 4, 4)) = value;
  return mask;
}

TEST_F(SourceScan, SkipsSaVObjectsWithAnEmptyOrBrokenFirstMask) {
  write_image(folder_ / "JPEGImages_24fps/v1/00000.jpg", test_picture(20, 20));
  const std::string masks = "Annotations_6fps/v1/";
  write_image(folder_ / (masks + "000/00000.png"), mask_of({1}));
  write_image(folder_ / (masks + "001/00000.png"), mask_of({}));
  write_image(folder_ / (masks + "001/00004.png"), mask_of({1}));
  write_image(folder_ / (masks + "003/00000.png"), mask_of({255}), {cv::IMWRITE_PNG_BILEVEL, 1});
  write_image(folder_ / (masks + "004/00000.png"), mask_of({1}));
  fs::create_directories(folder_ / (masks + "005"));
  test::write_text(folder_ / (masks + "002.txt"), "");
  fs::create_directories(folder_ / (masks + "002"));
  test::write_text(folder_ / (masks + "002/00000.png"), "bad");
  const auto metadata = test::value_of(scan({0, 2, 0}));
  EXPECT_THAT(ids_of(metadata.sequences[0]), ElementsAre("000", "003"));
  EXPECT_THAT(
      shown(metadata.skipped),
      ElementsAre("v1 object 001: its first mask is empty",
                  "v1 object 002: its first mask cannot be read: its content is not JPEG, PNG, BMP, WebP or "
                  "TIFF",
                  "v1 object 005: it has no mask"));
}

TEST_F(SourceScan, ReadsDavisPixelValuesAsObjects) {
  for (const char* video : {"bear", "camel"})
    write_image(folder_ / fmt::format("JPEGImages/480p/{}/00000.jpg", video), test_picture(20, 20));
  write_image(folder_ / "Annotations/480p/bear/00000.png", mask_of({2, 1, 7}));
  write_image(folder_ / "Annotations/480p/camel/00000.png", mask_of({}));
  const auto metadata = test::value_of(scan());
  EXPECT_THAT(ids_of(metadata.sequences[0]), ElementsAre("1", "2", "7"));
  EXPECT_THAT(ids_of(metadata.sequences[1]), ElementsAre(""));
  EXPECT_THAT(shown(metadata.skipped), ElementsAre("camel objects: its first mask is empty"));
}

// DAVIS masks are PNGs with a palette, for which image libraries return colours instead of ids. OpenCV
// cannot write such files, so this writes 8-bit indices in deflate's stored form.
std::uint32_t png_checksum(const std::string& bytes) {
  std::uint32_t sum = 0xffffffff;
  for (const char byte : bytes) {
    sum ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1U ^ ((sum & 1U) != 0 ? 0xedb88320U : 0U);
  }
  return ~sum;
}
std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24U), static_cast<char>(value >> 16U), static_cast<char>(value >> 8U),
          static_cast<char>(value)};
}
std::string chunk(const std::string& type, const std::string& data) {
  return big_endian(static_cast<std::uint32_t>(data.size())) + type + data +
         big_endian(png_checksum(type + data));
}
std::string palette_png(const cv::Mat& indices, const std::string& palette) {
  std::string rows;
  for (int y = 0; y < indices.rows; ++y)
    rows += '\0' + std::string(indices.ptr<char>(y), static_cast<std::size_t>(indices.cols));
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (const char byte : rows) b = (b + (a = (a + static_cast<std::uint8_t>(byte)) % 65521)) % 65521;
  const auto size = static_cast<std::uint16_t>(rows.size());
  const auto not_size = static_cast<std::uint16_t>(~size);
  const std::string stored = {'\x78',
                              '\x01',
                              '\x01',
                              static_cast<char>(size & 0xff),
                              static_cast<char>(size >> 8),
                              static_cast<char>(not_size & 0xff),
                              static_cast<char>(not_size >> 8)};
  return std::string("\x89PNG\r\n\x1a\n") +
         chunk("IHDR", big_endian(static_cast<std::uint32_t>(indices.cols)) +
                           big_endian(static_cast<std::uint32_t>(indices.rows)) +
                           std::string("\x08\x03\0\0\0", 5)) +
         chunk("PLTE", palette) + chunk("IDAT", stored + rows + big_endian(b << 16U | a)) + chunk("IEND", "");
}

TEST_F(SourceScan, ReadsDavisPaletteIndicesAsObjects) {
  write_image(folder_ / "JPEGImages/480p/bear/00000.jpg", test_picture(20, 20));
  fs::create_directories(folder_ / "Annotations/480p/bear");
  const std::string palette("\0\0\0\x80\0\0\0\x80\0\x80\x80\0", 12);  // black, red, green, yellow
  test::write_text(folder_ / "Annotations/480p/bear/00000.png", palette_png(mask_of({3, 1}), palette));
  const auto metadata = test::value_of(scan());
  EXPECT_THAT(shown(metadata.skipped), ElementsAre());
  EXPECT_THAT(ids_of(metadata.sequences[0]), ElementsAre("1", "3"));
}

// --- videos

TEST_F(SourceScan, CountsVideoFramesByDecoding) {
  write_video(folder_ / "a.mp4", 12, 96, 64);
  write_video(folder_ / "b.avi", 7, 64, 48);
  const auto metadata = test::value_of(scan_video(""));
  ASSERT_EQ(metadata.sequences.size(), 2U);
  EXPECT_EQ(metadata.sequences[0].frames, 12);
  EXPECT_EQ(metadata.sequences[0].width, 96);
  EXPECT_EQ(metadata.sequences[1].frames, 7);
  EXPECT_EQ(metadata.total_frames, 19);
  EXPECT_EQ(metadata.largest_frame.count, 96 * 64 * 3);
  EXPECT_TRUE(metadata.skipped.empty());
  EXPECT_EQ(scan_video("a.mp4", {0, 0, 5})->total_frames, 5);
}

TEST_F(SourceScan, ReportsATruncatedVideo) {
  write_video(folder_ / "a.avi", 60, 160, 120);
  const std::string whole = test::read_text(folder_ / "a.avi");
  test::write_text(folder_ / "a.avi", whole.substr(0, whole.size() / 2));
  const auto metadata = test::value_of(scan_video("a.avi"));
  EXPECT_GT(metadata.total_frames, 20);
  EXPECT_LT(metadata.total_frames, 35);
  ASSERT_EQ(metadata.skipped.size(), 1U);
  EXPECT_THAT(metadata.skipped[0].reason,
              testing::MatchesRegex("only [0-9]+ of the 60 announced frames can be decoded"));
}

TEST_F(SourceScan, SkipsAVideoWithoutItsIndex) {
  write_video(folder_ / "good.mp4", 5, 64, 48);
  write_video(folder_ / "cut.mp4", 60, 160, 120);
  const std::string whole = test::read_text(folder_ / "cut.mp4");
  test::write_text(folder_ / "cut.mp4", whole.substr(0, whole.size() / 2));
  test::write_text(folder_ / "empty.mp4", "");
  const auto metadata = test::value_of(scan_video(""));
  EXPECT_EQ(metadata.total_frames, 5);
  EXPECT_THAT(shown(metadata.skipped),
              ElementsAre(testing::StartsWith("cut.mp4: "), "empty.mp4: the file is empty"));
  EXPECT_THAT(
      scan_video("cut.mp4").error().sentence(),
      testing::StartsWith("no frame of video=" + (folder_ / "cut.mp4").string() + " can be decoded: "));
}

TEST_F(SourceScan, ScansRealVideos) {
  const auto street = test::opencv_example("data/vtest.avi");
  if (!street) GTEST_SKIP() << test::absent_message("vtest.avi (Debian: opencv-doc)");
  std::vector<std::int64_t> progress;
  const auto metadata = scan_source(engine(), {SourceKind::video, street->string(), 0}, {0, 0, 100},
                                    [&](std::int64_t frames, const std::string& sequence) {
                                      progress.push_back(frames);
                                      EXPECT_EQ(sequence, "vtest.avi");
                                    });
  ASSERT_TRUE(metadata) << metadata.error().sentence();
  EXPECT_EQ(metadata->total_frames, 100);
  ASSERT_EQ(progress.size(), 100u);
  EXPECT_EQ(progress.back(), 100);
  EXPECT_EQ(metadata->sequences[0].width, 768);
  EXPECT_EQ(metadata->sequences[0].height, 576);
}

// --- live sources

TEST_F(SourceScan, ReadsOneFrameOfALiveSource) {
  const SourceSpec pipeline{SourceKind::gst, "videotestsrc ! video/x-raw,width=64,height=48", 0};
  const auto metadata = test::value_of(scan_source(engine(), pipeline, {}));
  EXPECT_EQ(metadata.total_frames, 0);
  ASSERT_EQ(metadata.sequences.size(), 1U);
  EXPECT_EQ(metadata.sequences[0].width, 64);
  EXPECT_EQ(metadata.largest_frame.count, 64 * 48 * 3);
}

TEST_F(SourceScan, ReadsAllRawFramesOfAFile) {
  test::write_text(folder_ / "a.gray", std::string(3 * 8 * 4 + 5, 'x'));
  const auto raw = [&](const std::string& format) {
    return scan_source(engine(), {SourceKind::raw, (folder_ / "a.gray").string() + format, 0}, {});
  };
  const auto metadata = test::value_of(raw(",8x4,gray"));
  EXPECT_EQ(metadata.total_frames, 3);
  EXPECT_EQ(metadata.largest_frame.count, 8 * 4 * 3);
  EXPECT_THAT(shown(metadata.skipped),
              ElementsAre("a.gray frame 3: it ends 5 bytes after the start of frame 3: the size or the pixel "
                          "format may be wrong"));
  EXPECT_THAT(
      raw(",64x48,rgb").error().sentence(),
      testing::HasSubstr("can be decoded: a.gray frame 0: it ends 101 bytes after the start of frame 0"));
}

// Opening it would end its writer together with the scan.
TEST_F(SourceScan, DoesNotOpenAFifo) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  const auto metadata = test::value_of(
      scan_source(engine(), {SourceKind::raw, (folder_ / "fifo").string() + ",8x4,rgb", 0}, {}));
  EXPECT_EQ(metadata.total_frames, 0);
  EXPECT_EQ(metadata.sequences.at(0).height, 4);
}

TEST_F(SourceScan, NamesTheProgramsThatAreMissing) {
  write_video(folder_ / "a.mp4", 2, 64, 48);
  const test::ScopedEnvironment path("PATH", folder_.path().string());
  const auto metadata = scan_video("a.mp4");
  ASSERT_FALSE(metadata);
  EXPECT_EQ(metadata.error().kind, ErrorKind::input);
  EXPECT_EQ(metadata.error().sentence(),
            "cannot read video=" + (folder_ / "a.mp4").string() +
                ": neither ffmpeg nor gst-launch-1.0 is installed; apt install ffmpeg, or apt install "
                "gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-libav");
  EXPECT_THAT(scan_source(engine(), {SourceKind::csi, "", 0}, {}).error().sentence(),
              testing::StartsWith("cannot read csi=0: gst-launch-1.0 is not installed; apt install "));
}

// --- cameras

TEST_F(SourceScan, ReportsAMissingCameraInOneSentence) {
  if (fs::exists("/dev/video57")) GTEST_SKIP() << "this machine has a camera 57";
  const auto metadata = scan_source(engine(), {SourceKind::camera, "", 57}, {});
  ASSERT_FALSE(metadata);
  EXPECT_EQ(metadata.error().kind, ErrorKind::input);
  EXPECT_EQ(metadata.error().sentence(),
            "cannot open camera 57: no device /dev/video57; connect the camera, or use another number (ls "
            "/dev/video*)");
}

}  // namespace
}  // namespace headroom::media
