// Image files built by hand, with structures that OpenCV's encoders don't write.
// The figures of decoding memory are measured bytes per pixel, for pictures of 24 million pixels
// (docs/sources.md).
#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "media/image_header.h"
#include "support/test_support.h"

namespace headroom::media {
namespace {

using namespace std::string_literals;

Result<ImageHeader> inspect_header(const std::string& file) {
  return inspect_image({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
}
std::string reason(const std::string& file) {
  const auto header = inspect_header(file);
  return header ? "accepted" : header.error().what;
}

// A JPEG of 16 × 8 pixels with `scan` as entropy-coded data. Its APP1 segment contains a whole thumbnail.
std::string jpeg(const std::string& scan, const std::string& end = "\xFF\xD9"s) {
  const std::string thumbnail = "\xFF\xD8\xFF\xDA\x00\x02\x11\x22\xFF\xD9"s;
  return "\xFF\xD8"s + "\xFF\xE1\x00\x0C"s + thumbnail +
         "\xFF\xC0\x00\x0B\x08\x00\x08\x00\x10\x01\x01\x11\x00"s +
         "\xFF\xDA\x00\x08\x01\x01\x00\x00\x3F\x00"s + scan + end;
}

TEST(ImageHeader, ReadsJpegSizeFromItsFrameHeader) {
  const auto header = inspect_header(jpeg("\x12\x34"));
  ASSERT_TRUE(header) << header.error().what;
  EXPECT_EQ(header->format, ImageFormat::jpeg);
  EXPECT_EQ(header->width, 16);
  EXPECT_EQ(header->height, 8);
  EXPECT_EQ(header->bits, 8);
}

TEST(ImageHeader, AcceptsStuffingRestartsAndFillInJpegScans) {
  EXPECT_EQ(reason(jpeg("\x12\xFF\x00\x34\xFF\xD0\x56\xFF\xD7\xFF\x00"s)), "accepted");
  EXPECT_EQ(reason(jpeg("\x12\xFF\xFF"s)), "accepted") << "fill bytes before a marker";
  EXPECT_EQ(reason(jpeg("\x12", "\xFF\xD9 and notes \xFF\xD8\xFF\xE0"s)), "accepted");
}

TEST(ImageHeader, IgnoresTheEndMarkerOfAThumbnail) {
  EXPECT_EQ(reason(jpeg("\x12\x34", "")), "truncated JPEG: it ends before its end marker");
  EXPECT_EQ(reason(jpeg("\x12\x34", "\xFF")), "truncated JPEG: it ends before its end marker");
  EXPECT_EQ(reason(jpeg("").substr(0, 9)), "truncated JPEG: it ends inside a segment");
  EXPECT_EQ(reason("\xFF\xD8\xFF\xD9"s), "damaged JPEG: it contains no image");
  EXPECT_EQ(reason("\xFF\xD8\xFF\xE0\x00\x01"s),
            "damaged JPEG: a segment is shorter than its own length field");
  EXPECT_EQ(reason("\xFF\xD8\xFF\xDA\x00\x02\x11\xFF\xD9"s), "damaged JPEG: pixels come before the size");
}

std::string png(std::uint32_t width, std::uint32_t height, const std::string& chunks) {
  std::string size;
  for (const std::uint32_t side : {width, height})
    for (int shift = 24; shift >= 0; shift -= 8) size.push_back(static_cast<char>(side >> shift));
  return "\x89PNG\r\n\x1a\n\0\0\0\x0DIHDR"s + size + "\x08\x03\0\0\0"s + "CRC!" + chunks;
}
const std::string kEnd = "\0\0\0\0IENDCRC!"s;

TEST(ImageHeader, RequiresThePngEndChunk) {
  const auto header = inspect_header(png(300, 200, kEnd + "garbage"));
  ASSERT_TRUE(header) << header.error().what;
  EXPECT_EQ(header->width, 300);
  EXPECT_EQ(header->height, 200);
  EXPECT_EQ(reason(png(300, 200, "")), "truncated PNG: it ends before its end chunk");
  EXPECT_EQ(reason(png(300, 200, "\xFF\xFF\xFF\xFFIDAT"s + kEnd)),
            "truncated PNG: it ends before its end chunk");
  EXPECT_EQ(reason(png(0, 200, kEnd)), "damaged: its header has 0 pixels");
}

TEST(ImageHeader, RejectsTooManyPixels) {
  EXPECT_EQ(reason(png(16384, 8192, kEnd)), "accepted");
  EXPECT_EQ(reason(png(16385, 8192, kEnd)), "16385 x 8192 pixels exceed the limit of 134217728 pixels");
  EXPECT_NE(reason(png(0x7fffffff, 0x7fffffff, kEnd)), "accepted");
}

// EXIF data with one entry, the orientation.
std::string exif(char orientation) {
  return "II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0"s + orientation + std::string(7, '\0');
}

TEST(ImageHeader, ReadsTheOrientationOfAPng) {
  const auto orientation = [](const std::string& data) {
    return inspect_header(
               png(1, 1, "\0\0\0"s + static_cast<char>(data.size()) + "eXIf" + data + "CRC!" + kEnd))
        ->orientation;
  };
  EXPECT_TRUE(inspect_header(png(1, 1, kEnd))->has_palette);
  EXPECT_EQ(inspect_header(png(1, 1, kEnd))->orientation, 1);
  for (const char value : {'\1', '\2', '\6', '\10'}) EXPECT_EQ(orientation(exif(value)), value);
  for (const char value : {'\0', '\11'}) EXPECT_EQ(orientation(exif(value)), 1);
  EXPECT_EQ(orientation("IM*\0"s), 1);
  EXPECT_EQ(orientation("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6"s), 6);
}

TEST(ImageHeader, RequiresAllBmpRows) {
  // 40-byte header, 3 × −2 (top-down) pixels of 24 bits: rows of 12 bytes.
  const std::string header = "BM"s + "\0\0\0\0\0\0\0\0\x36\0\0\0"s +
                             "\x28\0\0\0\x03\0\0\0\xFE\xFF\xFF\xFF\x01\0\x18\0"s + std::string(24, '\0');
  const auto whole = inspect_header(header + std::string(24, 'x'));
  ASSERT_TRUE(whole) << whole.error().what;
  EXPECT_EQ(whole->height, 2);
  EXPECT_EQ(reason(header + std::string(23, 'x')), "truncated BMP: rows of pixels are missing");
}

TEST(ImageHeader, ReadsTiffInBothByteOrdersAndSizes) {
  // One strip of 6 bytes at offset 8; the directory follows it.
  const std::string little = "II*\0\x0E\0\0\0abcdef"s + "\x05\0"s + "\0\1\3\0\1\0\0\0\3\0\0\0"s +
                             "\1\1\3\0\1\0\0\0\1\0\0\0"s + "\2\1\3\0\1\0\0\0\x10\0\0\0"s +
                             "\x11\1\4\0\1\0\0\0\x08\0\0\0"s + "\x17\1\4\0\1\0\0\0\6\0\0\0"s + "\0\0\0\0"s;
  const auto header = inspect_header(little);
  ASSERT_TRUE(header) << header.error().what;
  EXPECT_EQ(header->format, ImageFormat::tiff);
  EXPECT_EQ(header->width, 3);
  EXPECT_EQ(header->height, 1);
  EXPECT_EQ(header->bits, 16);

  std::string beyond = little;
  beyond[beyond.size() - 8] = 100;  // the strip's byte count
  EXPECT_EQ(reason(beyond), "truncated TIFF: its directory or pixels lie beyond its end");
  EXPECT_EQ(reason(little.substr(0, 40)), "truncated TIFF: its directory or pixels lie beyond its end");

  const std::string big =
      "MM\0\x2A\0\0\0\x08\0\2"s + "\1\0\0\3\0\0\0\1\0\5\0\0"s + "\1\1\0\3\0\0\0\1\0\7\0\0"s + "\0\0\0\0"s;
  ASSERT_TRUE(inspect_header(big)) << inspect_header(big).error().what;
  EXPECT_EQ(inspect_header(big)->height, 7);
}

TEST(ImageHeader, ReadsSizesOfAllThreeWebpKinds) {
  const std::string lossless = "RIFF\x11\0\0\0WEBPVP8L\5\0\0\0\x2F\x0F\xC0\x01\x00"s;  // 16 × 8
  ASSERT_TRUE(inspect_header(lossless)) << inspect_header(lossless).error().what;
  EXPECT_EQ(inspect_header(lossless)->width, 16);
  EXPECT_EQ(inspect_header(lossless)->height, 8);
  EXPECT_EQ(reason(lossless.substr(0, 20)), "truncated WebP: it is shorter than the size in its header");
  const std::string extended = "RIFF\x16\0\0\0WEBPVP8X\x0A\0\0\0\0\0\0\0\x0F\0\0\x07\0\0"s;
  ASSERT_TRUE(inspect_header(extended)) << inspect_header(extended).error().what;
  EXPECT_EQ(inspect_header(extended)->height, 8);
}

TEST(ImageHeader, RejectsOtherContent) {
  EXPECT_EQ(reason(""), "empty file");
  for (const std::string other : {"GIF89a", "P6 3 3 255", "%PDF-1.7", "RIFF\0\0\0\0AVI ", "\xFF"})
    EXPECT_EQ(reason(other), "its content is not JPEG, PNG, BMP, WebP or TIFF") << other;
}

ImageHeader header_of(ImageFormat format, int bits, int channels) {
  ImageHeader header;
  header.format = format;
  header.width = 1000;
  header.height = 1000;
  header.bits = bits;
  header.channels = channels;
  return header;
}

std::int64_t bytes_a_pixel(const ImageHeader& header) {
  return decoding_memory(header, Bytes{}).count / (1000 * 1000);
}

TEST(DecodingMemory, EightBitPictureNeedsOnlyTheFrame) {
  for (const int channels : {1, 2, 3, 4})
    EXPECT_EQ(bytes_a_pixel(header_of(ImageFormat::png, 8, channels)), 3) << channels;
  EXPECT_EQ(decoding_memory(header_of(ImageFormat::bmp, 8, 3), Bytes{500}).count, 3'000'500);
}

TEST(DecodingMemory, DeepPictureIncludesItsConversion) {
  EXPECT_EQ(bytes_a_pixel(header_of(ImageFormat::png, 16, 1)), 6);
  EXPECT_EQ(bytes_a_pixel(header_of(ImageFormat::png, 16, 3)), 9);
  EXPECT_EQ(bytes_a_pixel(header_of(ImageFormat::png, 16, 4)), 9);
  ImageHeader floats = header_of(ImageFormat::tiff, 32, 1);
  floats.is_float = true;
  EXPECT_EQ(bytes_a_pixel(floats), 12);
  floats.channels = 3;
  EXPECT_EQ(bytes_a_pixel(floats), 27);
  EXPECT_EQ(bytes_a_pixel(header_of(ImageFormat::tiff, 64, 1)), 12);
}

TEST(DecodingMemory, TurnedPngCountsTwice) {
  ImageHeader header = header_of(ImageFormat::png, 8, 3);
  header.orientation = 6;
  EXPECT_EQ(bytes_a_pixel(header), 6);
  header.format = ImageFormat::jpeg;
  EXPECT_EQ(bytes_a_pixel(header), 3);
}

TEST(DecodingMemory, LargestPictureDoesNotOverflow) {
  ImageHeader header = header_of(ImageFormat::tiff, 64, 4);
  header.width = 16384;
  header.height = 8192;
  EXPECT_GT(decoding_memory(header, Bytes{}).count, kMaximumPixels * 25);
}

Result<ImageHeader> inspect(const std::string& file) {
  return inspect_image({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
}

// 16 × 8 pixels with three components, the first sampled at double resolution in both directions.
std::string jpeg_of(char start_of_frame, const std::string& application, char components_in_scan = 3) {
  return "\xFF\xD8"s + application + "\xFF"s + start_of_frame +
         "\x00\x11\x08\x00\x08\x00\x10\x03\x01\x22\x00\x02\x11\x00\x03\x11\x00"s + "\xFF\xDA\x00\x08"s +
         components_in_scan + "\x01\x00\x00\x3F\x00\x12\xFF\xD9"s;
}

TEST(ImageHeader, CountsCoefficientsOfAProgressiveJpeg) {
  EXPECT_EQ(inspect(jpeg_of('\xC0', ""))->decoder_bytes, 0);
  EXPECT_EQ(inspect(jpeg_of('\xC2', ""))->decoder_bytes, 16 * 8 * 3) << "1.5 values of 2 bytes per pixel";
  EXPECT_EQ(inspect(jpeg_of('\xC0', "", 1))->decoder_bytes, 16 * 8 * 3) << "one scan per component";
}

TEST(ImageHeader, DetectsExifOrientation) {
  const auto exif = [](const std::string& tiff) {
    return "\xFF\xE1\x00"s + static_cast<char>(8 + tiff.size()) + "Exif\0\0"s + tiff;
  };
  const auto big = [](char orientation) {
    return "MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"s + orientation + "\0\0\0\0\0\0"s;
  };
  const auto orientation = [](const std::string& segments) {
    return inspect(jpeg_of('\xC0', segments))->orientation;
  };
  EXPECT_EQ(orientation(exif(big(6))), 6);
  EXPECT_EQ(orientation(exif(big(1))), 1);
  EXPECT_EQ(orientation(exif("II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"s)), 6);
  EXPECT_EQ(orientation(exif("MM\0\x2a\xFF\xFF\xFF\xFF"s)), 1) << "the directory is beyond the end";
  EXPECT_EQ(orientation("\xFF\xE1\0\4xy"s + exif(big(6))), 1) << "another APP1 comes first";
}

template <class Value>
std::vector<int> scaled(const std::vector<Value>& values) {
  std::vector<std::uint8_t> result(values.size());
  scale_to_8_bit(std::span<const Value>(values), result.data());
  return {result.begin(), result.end()};
}

TEST(DepthScaling, MapsFirstAndNinetyNinthPercentileToBlackAndWhite) {
  std::vector<std::uint16_t> values(101);
  std::iota(values.begin(), values.end(), static_cast<std::uint16_t>(30000));
  std::shuffle(values.begin(), values.end(), std::mt19937(7));
  const auto result = scaled(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int rank = values[i] - 30000;  // the percentile, because there are 101 values
    const int expected = rank <= 1    ? 0
                         : rank >= 99 ? 255
                                      : static_cast<int>(std::lround((rank - 1) * 255.0 / 98));
    EXPECT_EQ(result[i], expected) << "percentile " << rank;
  }
}

TEST(DepthScaling, FloatsGiveTheSameAsIntegers) {
  std::mt19937 random(3);
  std::vector<std::uint16_t> values(5000);
  for (auto& value : values) value = static_cast<std::uint16_t>(20000 + random() % 3000);
  EXPECT_EQ(scaled(values), scaled(std::vector<float>(values.begin(), values.end())));
}

TEST(DepthScaling, ConstantFrameIsBlack) {
  EXPECT_THAT(scaled(std::vector<std::uint16_t>(10, 65535)), testing::Each(0));
  EXPECT_THAT(scaled(std::vector<float>(10, 21.5F)), testing::Each(0));
}

TEST(DepthScaling, KeepsASmallHotSpotInAUniformScene) {
  std::vector<std::uint16_t> values(10000, 30000);
  std::fill_n(values.begin(), 80, std::uint16_t{40000});  // 0.8 %: both percentiles are background values
  for (const auto& result : {scaled(values), scaled(std::vector<float>(values.begin(), values.end()))}) {
    EXPECT_EQ(result.front(), 255);
    EXPECT_EQ(result.back(), 0);
  }
}

TEST(DepthScaling, NotANumberIsBlackAndIgnored) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(scaled(std::vector<float>{kNan, 1, 2, 3, kInfinity, -kInfinity}),
            (std::vector<int>{0, 0, 255, 255, 255, 0}));
  EXPECT_THAT(scaled(std::vector<float>(4, kNan)), testing::Each(0));
  EXPECT_TRUE(scaled(std::vector<float>{}).empty());
  EXPECT_TRUE(scaled(std::vector<std::uint16_t>{}).empty());
}

}  // namespace
}  // namespace headroom::media
