// Loads the engine and checks the pictures that it draws.
// Compares the estimates of decoding_memory with the memory that the process really uses, from the kernel's
// high-water mark.
#include <fmt/format.h>
#include <malloc.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <opencv2/imgproc.hpp>

#include "base/files.h"
#include "base/text.h"
#include "media/image_header.h"
#include "media/media_engine.h"
#include "support/test_support.h"
#include "unit/media/media_test_support.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

Picture grey_picture(int width, int height) {
  return {width, height, std::vector<std::uint8_t>(PictureSize{width, height}.bytes(), 128)};
}

class Annotate : public testing::Test {
 protected:
  // The pixels that drawing changed, compared with a uniform grey frame.
  cv::Mat drawn(const FrameFindings& findings, const std::vector<std::string>& names = {}) {
    const std::string path = (folder_ / "out.jpg").string();
    const auto written = engine().write_annotated(grey_picture(320, 240), findings, names, path);
    EXPECT_TRUE(written) << written.error().sentence();
    Picture back;
    EXPECT_TRUE(engine().decode_image(path, back));
    return as_mat(back).clone();
  }
  static bool changed(const cv::Mat& image, cv::Rect where) {
    return cv::norm(image(where), cv::Mat(where.size(), CV_8UC3, cv::Scalar::all(128)), cv::NORM_INF) > 40;
  }
  test::TemporaryFolder folder_;
};

Detection box(float left, float top, float right, float bottom, int class_id = 0) {
  Detection detection;
  detection.left = left;
  detection.top = top;
  detection.right = right;
  detection.bottom = bottom;
  detection.score = 0.87F;
  detection.class_id = class_id;
  return detection;
}

TEST_F(Annotate, DrawsBoxesWithALabelAbove) {
  FrameFindings findings;
  findings.detections = {box(100, 100, 200, 180)};
  const cv::Mat image = drawn(findings, {"person"});
  EXPECT_TRUE(changed(image, {98, 140, 5, 1})) << "left edge";
  EXPECT_TRUE(changed(image, {150, 178, 1, 5})) << "bottom edge";
  EXPECT_TRUE(changed(image, {105, 88, 20, 8})) << "label";
  EXPECT_FALSE(changed(image, {130, 130, 40, 30})) << "inside";
  EXPECT_FALSE(changed(image, {220, 100, 60, 60})) << "elsewhere";
}

TEST_F(Annotate, DrawsClassesInDifferentColours) {
  FrameFindings findings;
  findings.detections = {box(50, 100, 120, 180, 0), box(180, 100, 250, 180, 1)};
  const cv::Mat image = drawn(findings);
  EXPECT_GT(cv::norm(image.at<cv::Vec3b>(90, 54), image.at<cv::Vec3b>(90, 184)), 60);
}

TEST_F(Annotate, KeepsLabelsInsideTheFrame) {
  FrameFindings findings;
  findings.detections = {box(300, 0, 319, 40)};
  EXPECT_TRUE(changed(drawn(findings, {"a long class name"}), {200, 2, 60, 10}));
}

TEST_F(Annotate, DrawsQuadsLinesAndMasks) {
  FrameFindings findings;
  findings.quads.push_back({{20, 20, 80, 20, 80, 60, 20, 60}, 0.9F});
  findings.lines.push_back({100, 200, 300, 200, 0.9F});
  Mask mask;
  mask.width = 2;
  mask.height = 1;
  mask.values = {0, 255};
  mask.left = 160;
  mask.top = 40;
  mask.right = 260;
  mask.bottom = 90;
  findings.masks.push_back(mask);
  const cv::Mat image = drawn(findings);
  EXPECT_TRUE(changed(image, {48, 18, 4, 5}));
  EXPECT_TRUE(changed(image, {200, 198, 4, 5}));
  EXPECT_TRUE(changed(image, {240, 50, 10, 30})) << "the mask's full half";
  EXPECT_FALSE(changed(image, {162, 50, 10, 30})) << "the mask's empty half";
}

TEST_F(Annotate, SurvivesInvalidFindings) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kHuge = std::numeric_limits<float>::max();
  FrameFindings findings;
  findings.detections = {box(kNan, -kHuge, kHuge, 1e30F, -7), box(500, 500, -500, -500, 2147483647)};
  findings.detections[0].landmark_count = 1000;
  findings.quads.push_back({{kNan, kNan, kHuge, 0, 0, -kHuge, 1, 1}, kNan});
  findings.lines.push_back({-kHuge, kHuge, kNan, 0, 0});
  Mask mask;
  mask.width = 100;
  mask.height = 100;  // without values
  mask.right = kHuge;
  mask.bottom = kHuge;
  findings.masks = {mask, {}};
  mask.values.assign(100 * 100, 255);
  findings.masks.push_back(mask);
  EXPECT_EQ(drawn(findings, {"", "x"}).size(), cv::Size(320, 240));
}

TEST_F(Annotate, ReportsAnUnwritablePathOrAnEmptyFrame) {
  EXPECT_EQ(engine().write_annotated(grey_picture(8, 8), {}, {}, "/proc/nothing/a.jpg").error().fix,
            "check that the folder exists and is writable");
  EXPECT_FALSE(engine().write_annotated(Picture{}, {}, {}, (folder_ / "a.jpg").string()));
}

TEST(MediaEngineLoader, ReportsAMissingPlugin) {
  EXPECT_THAT(engine().version(), testing::StartsWith("libjpeg-turbo 2."));
  test::TemporaryFolder folder;
  const std::string before = std::getenv("HEADROOM_BACKEND_PATH");
  ::setenv("HEADROOM_BACKEND_PATH", folder.path().c_str(), 1);
  const auto missing = load_media_engine();
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().sentence(),
              testing::StartsWith("cannot read images: libheadroom_media_pictures.so was not found in " +
                                  folder.path().string() + ", "));
  EXPECT_THAT(missing.error().fix, testing::HasSubstr("install Headroom's package again"));
  EXPECT_EQ(missing.error().kind, ErrorKind::internal);  // not a model failure and not a usage error

  test::write_text(folder / "libheadroom_media_pictures.so", "not a library");
  const auto broken = load_media_engine();
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().sentence(), testing::HasSubstr("install Headroom's package again"));
  EXPECT_EQ(broken.error().kind, ErrorKind::internal);

  // The first folder with the plug-in wins.
  ::setenv("HEADROOM_BACKEND_PATH", ("/nowhere::" + before + ":" + folder.path().string()).c_str(), 1);
  EXPECT_TRUE(load_media_engine());
  ::setenv("HEADROOM_BACKEND_PATH", before.c_str(), 1);
}

#if defined(HEADROOM_SANITIZED)
constexpr bool kSanitized = true;  // a sanitizer keeps freed memory and allocates more
#else
constexpr bool kSanitized = false;
#endif

// A line of /proc/self/status in bytes, or -1.
std::int64_t status_of(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) {
      const auto words = split_words(line);
      return parse_number<std::int64_t>(words[1]).value_or(-1) * 1024;
    }
  return -1;
}

class MemoryOfDecoding : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer allocates memory, too";
    if (!(std::ofstream("/proc/self/clear_refs") << "5" << std::flush) || status_of("VmHWM") < 0)
      GTEST_SKIP() << test::absent_message("a high-water mark that can be reset");
    ::mallopt(M_MMAP_THRESHOLD, 1 << 20);  // the same setting as in the scan
  }

  // Writes the picture, decodes it, and compares.
  void check(const std::string& name, const cv::Mat& image, const std::vector<int>& parameters = {},
             double at_least = 0.8) {
    const std::string path = (folder_ / name).string();
    write_image(path, image, parameters);
    std::int64_t estimate = 0;
    {
      const auto file = read_file(path);
      ASSERT_TRUE(file);
      const auto header = inspect_image({reinterpret_cast<const std::uint8_t*>(file->data()), file->size()});
      ASSERT_TRUE(header) << header.error().what;
      estimate = decoding_memory(*header, {static_cast<std::int64_t>(file->size())}).count;
    }
    Picture warm;  // one-time allocations of the library
    ASSERT_TRUE(engine().decode_image(path, warm));
    warm = {};
    std::ofstream("/proc/self/clear_refs") << "5" << std::flush;
    const std::int64_t before = status_of("VmRSS");
    Picture picture;
    ASSERT_TRUE(engine().decode_image(path, picture));
    const std::int64_t taken = status_of("VmHWM") - before;
    constexpr std::int64_t kNoise = 2 << 20;  // small allocations, and pages of the library itself
    EXPECT_LE(taken, estimate + kNoise) << name;
    EXPECT_GE(static_cast<double>(taken + kNoise), static_cast<double>(estimate) * at_least)
        << name << ": a picture that fits would be skipped";
  }

  test::TemporaryFolder folder_;
  static cv::Mat of_type(int type) { return cv::Mat(2400, 3200, type, cv::Scalar(20, 120, 60, 200)); }
};

TEST_F(MemoryOfDecoding, MatchesTheEstimateForEightBits) {
  check("a.png", of_type(CV_8UC3));
  check("b.png", of_type(CV_8UC4));
  check("c.png", of_type(CV_8UC1));
  check("d.jpg", of_type(CV_8UC3));
  check("e.bmp", of_type(CV_8UC3));
  check("f.tiff", of_type(CV_8UC3));
}

TEST_F(MemoryOfDecoding, MatchesTheEstimateForProgressiveJpegAndWebp) {
  check("a.jpg", of_type(CV_8UC3), {cv::IMWRITE_JPEG_PROGRESSIVE, 1});
  check("b.jpg", of_type(CV_8UC1), {cv::IMWRITE_JPEG_PROGRESSIVE, 1});
  check("c.webp", of_type(CV_8UC3), {cv::IMWRITE_WEBP_QUALITY, 80});
  // In lossless mode a picture of one colour uses a palette, and so less memory than others.
  check("d.webp", of_type(CV_8UC3), {cv::IMWRITE_WEBP_QUALITY, 101}, 0.4);
  check("e.webp", of_type(CV_8UC4), {cv::IMWRITE_WEBP_QUALITY, 80});
  check("f.webp", of_type(CV_8UC4), {cv::IMWRITE_WEBP_QUALITY, 101}, 0.4);
}

TEST_F(MemoryOfDecoding, MatchesTheEstimateForDeepPictures) {
  check("a.png", of_type(CV_16UC1));
  check("b.png", of_type(CV_16UC3));
  check("c.png", of_type(CV_16UC4));
  check("d.tiff", of_type(CV_16UC1));
  check("e.tiff", of_type(CV_16UC3));
  check("f.tiff", of_type(CV_32FC1));
  check("g.tiff", of_type(CV_32FC3));
  check("h.tiff", of_type(CV_64FC1));
}

}  // namespace
}  // namespace headroom::media
