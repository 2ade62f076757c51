// The figures are measured bytes per pixel, for pictures of 24 million pixels (docs/sources.md).
#include "media/image_memory.h"

#include "support/test_support.h"

namespace headroom::media {
namespace {
using namespace std::string_literals;

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
  EXPECT_EQ(bytes_a_pixel(header_of(ImageFormat::png, 16, 1)), 9);
  EXPECT_EQ(bytes_a_pixel(header_of(ImageFormat::png, 16, 3)), 12);
  EXPECT_EQ(bytes_a_pixel(header_of(ImageFormat::png, 16, 4)), 19);
  ImageHeader floats = header_of(ImageFormat::tiff, 32, 1);
  floats.is_float = true;
  EXPECT_EQ(bytes_a_pixel(floats), 16);
  floats.channels = 3;
  EXPECT_EQ(bytes_a_pixel(floats), 42);
  EXPECT_EQ(bytes_a_pixel(header_of(ImageFormat::tiff, 64, 1)), 20);
}

TEST(DecodingMemory, TurnedPictureCountsTwice) {
  ImageHeader header = header_of(ImageFormat::jpeg, 8, 3);
  header.turned = true;
  EXPECT_EQ(bytes_a_pixel(header), 6);
}

TEST(DecodingMemory, LargestPictureDoesNotOverflow) {
  ImageHeader header = header_of(ImageFormat::tiff, 64, 4);
  header.width = 16384;
  header.height = 8192;
  EXPECT_GT(decoding_memory(header, Bytes{}).count, kMaximumPixels * 50);
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
  EXPECT_TRUE(inspect(jpeg_of('\xC0', exif(big(6))))->turned);
  EXPECT_FALSE(inspect(jpeg_of('\xC0', exif(big(1))))->turned);
  EXPECT_TRUE(
      inspect(jpeg_of('\xC0', exif("II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"s)))
          ->turned);
  EXPECT_FALSE(inspect(jpeg_of('\xC0', exif("MM\0\x2a\xFF\xFF\xFF\xFF"s)))->turned)
      << "the directory is beyond the end";
}

}  // namespace
}  // namespace headroom::media
