#include "media/vos/masks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "support/test_support.h"
#include "unit/evaluation/masks_of_text.h"
#include "unit/media/media_test_support.h"

namespace headroom::media::vos {
namespace {

using testing::HasSubstr;

class VosMasks : public testing::Test {
 protected:
  std::string file(const std::string& name) { return (folder_ / name).string(); }
  std::string error_of(const std::string& name) {
    const auto labels = engine().read_labels(file(name));
    return labels ? "no error" : labels.error().sentence();
  }
  test::TemporaryFolder folder_;
};

LabelPicture gradient(int width, int height) {
  LabelPicture labels{width, height, {}};
  for (int i = 0; i < width * height; ++i) labels.values.push_back(static_cast<std::uint8_t>(i % 256));
  return labels;
}

TEST_F(VosMasks, IndexedPngKeepsAllValues) {
  const LabelPicture labels = gradient(37, 29);
  ASSERT_TRUE(engine().write_labels(labels, file("a.png")));
  const auto read = engine().read_labels(file("a.png"));
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(read->width, 37);
  EXPECT_EQ(read->height, 29);
  EXPECT_EQ(read->values, labels.values);
  // DAVIS's palette, as OpenCV decodes it (BGR): 1 is dark red, 2 dark green, 4 dark blue, 8 (64, 0, 0).
  const cv::Mat colors = cv::imread(file("a.png"));
  EXPECT_EQ(colors.at<cv::Vec3b>(0, 0), cv::Vec3b(0, 0, 0));
  EXPECT_EQ(colors.at<cv::Vec3b>(0, 1), cv::Vec3b(0, 0, 128));
  EXPECT_EQ(colors.at<cv::Vec3b>(0, 2), cv::Vec3b(0, 128, 0));
  EXPECT_EQ(colors.at<cv::Vec3b>(0, 4), cv::Vec3b(128, 0, 0));
  EXPECT_EQ(colors.at<cv::Vec3b>(0, 8), cv::Vec3b(0, 0, 64));
  EXPECT_EQ(colors.at<cv::Vec3b>(255 / 37, 255 % 37), cv::Vec3b(192, 224, 224));
}

TEST_F(VosMasks, MaskIsWrittenWithOneBit) {
  const BinaryMask mask = test::mask_of_rows({"#..#.....#", ".##.......", "..........", "#########."});
  ASSERT_TRUE(write_mask(engine(), mask, file("m.png")));
  EXPECT_EQ(test::read_text(folder_ / "m.png").at(24), 1);  // bits a pixel, in the header
  const auto read = read_mask(engine(), file("m.png"), 0);
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(read->pixels, mask.pixels);
  EXPECT_EQ(read_mask(engine(), file("m.png"), 1)->pixels, mask.pixels);
}

TEST_F(VosMasks, ReadsGreyAndEqualColors) {
  cv::Mat grey(6, 5, CV_8UC1, cv::Scalar(0));
  grey.at<std::uint8_t>(2, 3) = 255;
  grey.at<std::uint8_t>(4, 1) = 2;
  cv::Mat color, with_alpha;
  cv::cvtColor(grey, color, cv::COLOR_GRAY2BGR);
  cv::cvtColor(grey, with_alpha, cv::COLOR_GRAY2BGRA);
  write_image(folder_ / "grey.png", grey);
  write_image(folder_ / "color.png", color);
  write_image(folder_ / "alpha.png", with_alpha);
  for (const char* name : {"grey.png", "color.png", "alpha.png"}) {
    const auto labels = engine().read_labels(file(name));
    ASSERT_TRUE(labels) << labels.error().sentence();
    EXPECT_EQ(labels->values[2 * 5 + 3], 255) << name;
    EXPECT_EQ(labels->values[4 * 5 + 1], 2) << name;
    const BinaryMask any = mask_of(*labels, 0), two = mask_of(*labels, 2);
    EXPECT_EQ(std::ranges::count(any.pixels, 1), 2);
    EXPECT_EQ(std::ranges::count(two.pixels, 1), 1);
    EXPECT_EQ(two.pixels[4 * 5 + 1], 1);
  }
}

TEST_F(VosMasks, NamesWhatCannotBeRead) {
  write_image(folder_ / "color.png", test_picture(20, 10));
  write_image(folder_ / "deep.png", thermal_picture(20, 10));
  write_image(folder_ / "photo.jpg", test_picture(20, 10));
  test::write_text(folder_ / "text.png", "no picture");
  ASSERT_TRUE(engine().write_labels(gradient(40, 40), file("whole.png")));
  const std::string whole = test::read_text(folder_ / "whole.png");
  test::write_text(folder_ / "cut.png", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(error_of("color.png"),
              HasSubstr("color.png: its colours are not numbers of objects; write masks as PNG"));
  EXPECT_THAT(error_of("deep.png"), HasSubstr("it has 16 bits a pixel"));
  EXPECT_THAT(error_of("photo.jpg"), HasSubstr("it is not a PNG"));
  EXPECT_THAT(error_of("text.png"), HasSubstr("cannot decode "));
  EXPECT_THAT(error_of("cut.png"), HasSubstr("truncated PNG"));
  EXPECT_THAT(error_of("none.png"), HasSubstr("none.png"));
}

TEST_F(VosMasks, NamesWhatCannotBeWritten) {
  EXPECT_FALSE(engine().write_labels({4, 4, {1, 2}}, file("a.png")));
  EXPECT_FALSE(engine().write_labels({}, file("a.png")));
  EXPECT_FALSE(write_mask(engine(), test::filled_mask(4, 4, 1), file("no/folder/a.png")));
}

TEST_F(VosMasks, SeveralMasksShareAFile) {
  LabelPicture labels;
  ASSERT_TRUE(add_mask(labels, test::mask_of_rows({"##..", "##.."}), 3));
  ASSERT_TRUE(add_mask(labels, test::mask_of_rows({".##.", "...."}), 1));
  EXPECT_EQ(labels.values, (std::vector<std::uint8_t>{3, 1, 1, 0, 3, 3, 0, 0}));
  EXPECT_FALSE(add_mask(labels, test::filled_mask(3, 2, 1), 1));
  EXPECT_FALSE(add_mask(labels, test::filled_mask(4, 2, 1), 0));
  EXPECT_FALSE(add_mask(labels, test::filled_mask(4, 2, 1), 256));
}

TEST(EmptyMask, HasNoPixelOfTheObject) {
  EXPECT_TRUE(is_empty(test::filled_mask(5, 5, 0)));
  EXPECT_FALSE(is_empty(test::mask_of_rows({"...", "..#"})));
}

}  // namespace
}  // namespace headroom::media::vos
