// Loads the engine and checks the pictures that it draws.
#include "media/media_engine.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <opencv2/imgproc.hpp>

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
  EXPECT_THAT(engine().version(), testing::StartsWith("OpenCV 4."));
  test::TemporaryFolder folder;
  const std::string before = std::getenv("HEADROOM_BACKEND_PATH");
  ::setenv("HEADROOM_BACKEND_PATH", folder.path().c_str(), 1);
  const auto missing = load_media_engine();
  ASSERT_FALSE(missing);
  EXPECT_THAT(
      missing.error().sentence(),
      testing::StartsWith("cannot read images or videos: libheadroom_media_opencv.so was not found in " +
                          folder.path().string() + ", "));
  EXPECT_THAT(missing.error().fix, testing::HasSubstr("libopencv-dev"));
  EXPECT_EQ(missing.error().kind, ErrorKind::internal);  // not a model failure and not a usage error

  test::write_text(folder / "libheadroom_media_opencv.so", "not a library");
  const auto broken = load_media_engine();
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().sentence(), testing::HasSubstr("install OpenCV 4"));

  // The first folder with the plug-in wins.
  ::setenv("HEADROOM_BACKEND_PATH", ("/nowhere::" + before + ":" + folder.path().string()).c_str(), 1);
  EXPECT_TRUE(load_media_engine());
  ::setenv("HEADROOM_BACKEND_PATH", before.c_str(), 1);
}

}  // namespace
}  // namespace headroom::media
