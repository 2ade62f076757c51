// Image files built by hand, with structures that OpenCV's encoders don't write.
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

TEST(ImageHeader, ReadsPaletteEntriesInOrder) {
  const std::string file = png(1, 1, "\0\0\0\x06PLTE\x00\x00\x00\x80\x00\x01"s + "CRC!" + kEnd);
  const auto palette = png_palette({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
  ASSERT_EQ(palette.size(), 2U);
  EXPECT_EQ(palette[1], (std::array<std::uint8_t, 3>{0x80, 0, 1}));
  EXPECT_TRUE(png_palette({}).empty());
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

}  // namespace
}  // namespace headroom::media
