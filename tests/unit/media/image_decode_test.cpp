// Decodes every format that OpenCV can write, and rejects everything that is not a complete picture.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <opencv2/imgproc.hpp>

#include "support/test_support.h"
#include "unit/media/media_test_support.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

Result<Picture> decode(const fs::path& path) {
  Picture picture;
  if (auto decoded = engine().decode_image(path.string(), picture); !decoded) return forward_error(decoded);
  return picture;
}

cv::Mat decoded(const fs::path& path) {
  auto picture = decode(path);
  EXPECT_TRUE(picture) << picture.error().sentence();
  return picture ? as_mat(*picture).clone() : cv::Mat();
}

TEST(ImageDecode, DecodesLosslessFormatsExactly) {
  test::TemporaryFolder folder;
  const cv::Mat picture = test_picture(70, 50);
  for (const char* name : {"a.png", "a.bmp", "a.tiff", "a.TIF"}) {
    write_image(folder / name, picture);
    EXPECT_EQ(largest_difference(decoded(folder / name), picture), 0) << name;
  }
  write_image(folder / "a.webp", picture,
              {cv::IMWRITE_WEBP_QUALITY, 101});  // a quality above 100 means lossless
  EXPECT_EQ(largest_difference(decoded(folder / "a.webp"), picture), 0);
}

TEST(ImageDecode, DecodesLossyFormatsApproximately) {
  test::TemporaryFolder folder;
  cv::Mat picture;
  cv::GaussianBlur(test_picture(160, 120), picture, {9, 9}, 3);
  write_image(folder / "a.jpg", picture, {cv::IMWRITE_JPEG_QUALITY, 95});
  write_image(folder / "b.jpeg", picture, {cv::IMWRITE_JPEG_QUALITY, 95, cv::IMWRITE_JPEG_PROGRESSIVE, 1});
  write_image(folder / "c.jpg", picture, {cv::IMWRITE_JPEG_RST_INTERVAL, 4});
  write_image(folder / "d.webp", picture, {cv::IMWRITE_WEBP_QUALITY, 90});
  for (const char* name : {"a.jpg", "b.jpeg", "c.jpg", "d.webp"})
    EXPECT_LT(mean_difference(decoded(folder / name), picture), 3) << name;
}

TEST(ImageDecode, GreyBecomesThreeEqualChannels) {
  test::TemporaryFolder folder;
  cv::Mat grey;
  cv::cvtColor(test_picture(33, 21), grey, cv::COLOR_BGR2GRAY);
  cv::Mat expected;
  cv::cvtColor(grey, expected, cv::COLOR_GRAY2BGR);
  for (const char* name : {"a.png", "a.bmp", "a.tiff"}) {
    write_image(folder / name, grey);
    EXPECT_EQ(largest_difference(decoded(folder / name), expected), 0) << name;
  }
}

TEST(ImageDecode, AlphaIsDropped) {
  test::TemporaryFolder folder;
  const cv::Mat picture = test_picture(33, 21);
  cv::Mat transparent;
  cv::cvtColor(picture, transparent, cv::COLOR_BGR2BGRA);
  transparent.forEach<cv::Vec4b>(
      [](cv::Vec4b& pixel, const int* at) { pixel[3] = static_cast<std::uint8_t>(at[1]); });
  write_image(folder / "a.png", transparent);
  EXPECT_EQ(largest_difference(decoded(folder / "a.png"), picture), 0);
}

TEST(ImageDecode, OneBitPngIsBlackAndWhite) {
  test::TemporaryFolder folder;
  const cv::Mat mask = (cv::Mat_<std::uint8_t>(2, 3) << 0, 255, 0, 255, 255, 0);
  write_image(folder / "a.png", mask, {cv::IMWRITE_PNG_BILEVEL, 1});
  const cv::Mat back = decoded(folder / "a.png");
  EXPECT_EQ(back.at<cv::Vec3b>(0, 1), cv::Vec3b(255, 255, 255));
  EXPECT_EQ(back.at<cv::Vec3b>(1, 2), cv::Vec3b(0, 0, 0));
}

TEST(ImageDecode, ScalesSixteenBitsBetweenPercentiles) {
  test::TemporaryFolder folder;
  cv::Mat thermal = thermal_picture(160, 120);
  thermal.at<std::uint16_t>(5, 5) = 65535;  // one hot pixel must not darken the rest
  for (const char* name : {"a.tiff", "a.png"}) {
    write_image(folder / name, thermal);
    const cv::Mat back = decoded(folder / name);
    ASSERT_EQ(back.type(), CV_8UC3) << name;
    EXPECT_EQ(back.at<cv::Vec3b>(0, 0), cv::Vec3b(0, 0, 0));
    EXPECT_EQ(back.at<cv::Vec3b>(119, 159), cv::Vec3b(255, 255, 255));
    EXPECT_NEAR(back.at<cv::Vec3b>(60, 80)[0], 128, 4);
    EXPECT_EQ(back.at<cv::Vec3b>(60, 80)[0], back.at<cv::Vec3b>(60, 80)[2]);
  }
}

TEST(ImageDecode, ScalesSixteenBitColourAndFloat) {
  test::TemporaryFolder folder;
  cv::Mat deep;
  test_picture(64, 48).convertTo(deep, CV_16U, 40, 7);
  write_image(folder / "a.png", deep);
  const cv::Mat colour = decoded(folder / "a.png");
  EXPECT_EQ(colour.type(), CV_8UC3);
  EXPECT_LT(mean_difference(colour, test_picture(64, 48)), 4);

  cv::Mat celsius;
  thermal_picture(64, 48).convertTo(celsius, CV_32F, 0.01, -273.15);
  celsius.at<float>(3, 3) = std::nanf("");
  write_image(folder / "a.tiff", celsius);
  const cv::Mat thermal = decoded(folder / "a.tiff");
  EXPECT_EQ(thermal.at<cv::Vec3b>(0, 0)[0], 0);
  EXPECT_EQ(thermal.at<cv::Vec3b>(3, 3)[0], 0);
  EXPECT_EQ(thermal.at<cv::Vec3b>(47, 63)[0], 255);
  EXPECT_NEAR(thermal.at<cv::Vec3b>(24, 32)[0], 128, 5);
}

TEST(ImageDecode, RecognizesContentNotExtension) {
  test::TemporaryFolder folder;
  write_image(folder / "a.png", test_picture(40, 30));
  fs::rename(folder / "a.png", folder / "a.jpg");
  EXPECT_EQ(largest_difference(decoded(folder / "a.jpg"), test_picture(40, 30)), 0);
}

// APP1 with one EXIF tag, Orientation = 6: the camera was rotated, so width and height are swapped.
std::string with_exif_orientation(const std::string& jpeg, char orientation) {
  const std::string tiff = std::string("II*\0\x08\0\0\0", 8) + std::string("\1\0", 2) +
                           std::string("\x12\x01\x03\0\1\0\0\0", 8) + std::string{orientation, 0, 0, 0} +
                           std::string(4, '\0');
  const std::string body = std::string("Exif\0\0", 6) + tiff;
  const auto length = static_cast<char>(body.size() + 2);
  return jpeg.substr(0, 2) + std::string{'\xFF', '\xE1', '\0', length} + body + jpeg.substr(2);
}

TEST(ImageDecode, AppliesExifOrientation) {
  test::TemporaryFolder folder;
  write_image(folder / "a.jpg", test_picture(64, 48));
  const cv::Mat upright = decoded(folder / "a.jpg");
  test::write_text(folder / "turned.jpg", with_exif_orientation(test::read_text(folder / "a.jpg"), 6));
  cv::Mat expected;
  cv::rotate(upright, expected, cv::ROTATE_90_CLOCKWISE);
  EXPECT_EQ(largest_difference(decoded(folder / "turned.jpg"), expected), 0);
  test::write_text(folder / "half.jpg", with_exif_orientation(test::read_text(folder / "a.jpg"), 3));
  cv::rotate(upright, expected, cv::ROTATE_180);
  EXPECT_EQ(largest_difference(decoded(folder / "half.jpg"), expected), 0);
}

// --- rejected files

TEST(ImageDecode, RejectsAJpegCutAnywhere) {
  const auto messi = test::opencv_example("data/messi5.jpg");
  if (!messi) GTEST_SKIP() << test::absent_message("messi5.jpg (Debian: opencv-doc)");
  test::TemporaryFolder folder;
  const std::string whole = test::read_text(*messi);
  const cv::Mat picture = decoded(*messi);
  for (std::size_t cut = 0; cut < whole.size(); cut += cut < 1000 ? 37 : 1501) {
    test::write_text(folder / "cut.jpg", whole.substr(0, cut));
    EXPECT_FALSE(decode(folder / "cut.jpg")) << "cut at " << cut << " of " << whole.size();
  }
  test::write_text(folder / "cut.jpg", whole.substr(0, whole.size() / 2));
  EXPECT_EQ(decode(folder / "cut.jpg").error().why, "truncated JPEG: it ends before its end marker");
  // An interrupted download leaves zeros, and a repair tool adds an end marker. Both must be rejected.
  test::write_text(folder / "zeros.jpg",
                   whole.substr(0, whole.size() / 2) + std::string(whole.size() / 2, '\0'));
  EXPECT_FALSE(decode(folder / "zeros.jpg"));
  test::write_text(folder / "mended.jpg", whole.substr(0, whole.size() / 2) + "\xFF\xD9");
  EXPECT_EQ(decode(folder / "mended.jpg").error().why, "damaged JPEG: premature end of data segment");
  // Data after the end marker is accepted.
  test::write_text(folder / "more.jpg", whole + "some editor's notes \xFF\xD8\xFF");
  EXPECT_EQ(largest_difference(decoded(folder / "more.jpg"), picture), 0);
}

TEST(ImageDecode, RejectsEveryTruncatedFormat) {
  test::TemporaryFolder folder;
  const cv::Mat picture = test_picture(90, 70);
  for (const char* name : {"a.png", "a.bmp", "a.tiff", "a.webp", "a.jpg"}) {
    write_image(folder / name, picture);
    const std::string whole = test::read_text(folder / name);
    const std::size_t step = std::max<std::size_t>(1, whole.size() / 60);
    for (std::size_t cut = 0; cut < whole.size() - 1; cut += step) {
      test::write_text(folder / "cut", whole.substr(0, cut));
      EXPECT_FALSE(decode(folder / "cut")) << name << " cut at " << cut << " of " << whole.size();
    }
  }
}

TEST(ImageDecode, RejectsAPngWithDamagedPixels) {
  test::TemporaryFolder folder;
  write_image(folder / "a.png", test_picture(90, 70));
  std::string bytes = test::read_text(folder / "a.png");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  test::write_text(folder / "a.png", bytes);
  EXPECT_FALSE(decode(folder / "a.png"));
}

TEST(ImageDecode, ReportsErrorsInOneSentenceWithTheReason) {
  test::TemporaryFolder folder;
  test::write_text(folder / "empty.jpg", "");
  EXPECT_EQ(decode(folder / "empty.jpg").error().sentence(),
            fmt::format("cannot decode {}: empty file; remove or replace the file",
                        (folder / "empty.jpg").string()));
  test::write_text(folder / "text.jpg", "this is not a picture");
  EXPECT_EQ(decode(folder / "text.jpg").error().why, "its content is not JPEG, PNG, BMP, WebP or TIFF");
  EXPECT_EQ(decode(folder / "absent.jpg").error().why, "No such file or directory");
}

TEST(ImageDecode, ReportsAnUnreadableFile) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every file";
  test::TemporaryFolder folder;
  write_image(folder / "a.png", test_picture(10, 10));
  fs::permissions(folder / "a.png", fs::perms::none);
  EXPECT_EQ(decode(folder / "a.png").error().fix, "check the file's permissions");
}

TEST(ImageDecode, RejectsADecompressionBombBeforeDecoding) {
  test::TemporaryFolder folder;
  write_image(folder / "a.png", cv::Mat::zeros(8, 8, CV_8UC1));
  std::string bytes = test::read_text(folder / "a.png");
  bytes.replace(16, 8, std::string("\0\1\0\0\0\1\0\0", 8));  // 65536 × 65536
  test::write_text(folder / "a.png", bytes);
  bool asked = false;
  const auto result = engine().decode_image_into((folder / "a.png").string(), [&](PictureSize) {
    asked = true;
    return static_cast<std::uint8_t*>(nullptr);
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().why, "65536 x 65536 pixels exceed the limit of 134217728 pixels");
  EXPECT_FALSE(asked);
}

TEST(ImageDecode, WritesNothingToStderr) {
  test::TemporaryFolder folder;
  write_image(folder / "a.jpg", test_picture(200, 200));
  const std::string whole = test::read_text(folder / "a.jpg");
  test::write_text(folder / "mended.jpg", whole.substr(0, whole.size() / 2) + "\xFF\xD9");
  write_image(folder / "a.png", test_picture(90, 70));
  std::string bytes = test::read_text(folder / "a.png");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  test::write_text(folder / "a.png", bytes);
  engine();
  testing::internal::CaptureStderr();
  const bool any = decode(folder / "mended.jpg") || decode(folder / "a.png");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(any);
}

// --- decoding into given memory

TEST(ImageDecode, DecodesDirectlyIntoTheGivenMemory) {
  test::TemporaryFolder folder;
  const cv::Mat picture = test_picture(50, 40);
  write_image(folder / "a.png", picture);
  std::vector<std::uint8_t> memory(50 * 40 * 3 + 1, 0xAB);
  int asked = 0;
  const auto result = engine().decode_image_into((folder / "a.png").string(), [&](PictureSize size) {
    ++asked;
    EXPECT_EQ(size, (PictureSize{50, 40}));
    return memory.data();
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, Decoded::frame);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(largest_difference(cv::Mat(40, 50, CV_8UC3, memory.data()), picture), 0);
  EXPECT_EQ(memory.back(), 0xAB);
}

TEST(ImageDecode, DecodesNothingWithoutMemory) {
  test::TemporaryFolder folder;
  write_image(folder / "a.png", test_picture(50, 40));
  const auto result = engine().decode_image_into(
      (folder / "a.png").string(), [](PictureSize) { return static_cast<std::uint8_t*>(nullptr); });
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, Decoded::no_space);
}

// --- real input

TEST(ImageDecode, DecodesRealPhotosAndARadiometricImage) {
  struct Expectation {
    const char* name;
    int width, height;
  };
  for (const Expectation& image : {Expectation{"media/flirpy_baboons.jpg", 640, 512},
                                   {"media/humans_4.jpg", 1000, 667},
                                   {"media/peds_0.jpg", 1920, 1080},
                                   {"media/flirpy_radiometric.tiff", 640, 512}}) {
    const auto path = test::shared_data(image.name);
    if (!path) GTEST_SKIP() << test::absent_message(image.name);
    const cv::Mat back = decoded(*path);
    EXPECT_EQ(back.size(), cv::Size(image.width, image.height)) << image.name;
    cv::Mat deviation;
    cv::Mat mean;
    cv::meanStdDev(back, mean, deviation);
    EXPECT_GT(deviation.at<double>(0), 20) << image.name << ": the picture has too little contrast";
  }
}

}  // namespace
}  // namespace headroom::media
