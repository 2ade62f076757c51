#include "media/image_header.h"

#include <fmt/format.h>

#include <cstdlib>

#include "media/image_header_formats.h"

namespace headroom::media {
namespace {

constexpr std::string_view kPngSignature("\x89PNG\r\n\x1a\n", 8);
constexpr std::string_view kLittleTiff("II\x2a\0", 4);
constexpr std::string_view kBigTiffLittle("II\x2b\0", 4);
constexpr std::string_view kBigEndianTiff("MM\0\x2a", 4);
constexpr std::string_view kBigTiffBig("MM\0\x2b", 4);

Result<ImageHeader> inspect_by_signature(std::span<const std::uint8_t> file) {
  const ByteReader reader(file, ByteOrder::big);
  if (file.empty()) return input_error("empty file");
  if (reader.has(0, "\xFF\xD8")) return inspect_jpeg(file);
  if (reader.has(0, kPngSignature)) return inspect_png(file);
  if (reader.has(0, "BM")) return inspect_bmp(file);
  if (reader.has(0, "RIFF") && reader.has(8, "WEBP")) return inspect_webp(file);
  if (reader.has(0, kLittleTiff) || reader.has(0, kBigEndianTiff) || reader.has(0, kBigTiffLittle) ||
      reader.has(0, kBigTiffBig))
    return inspect_tiff(file);
  return input_error("its content is not JPEG, PNG, BMP, WebP or TIFF");
}

constexpr std::uint32_t kIend = 0x49454e44, kExif = 0x65584966;

// Calls each(type, position of the data, length) for the chunks of a PNG up to the end chunk. Returns false
// if the file ends first.
template <class Each>
bool walk_png(std::span<const std::uint8_t> file, Each each) {
  const ByteReader reader(file, ByteOrder::big);
  std::uint64_t at = kPngSignature.size();
  for (;;) {
    const auto length = reader.number(at, 4);
    const auto type = reader.number(at + 4, 4);
    if (!length || !type || *length + 12 > reader.size() - at) return false;
    if (*type == kIend) return true;
    each(static_cast<std::uint32_t>(*type), at + 8, *length);
    at += *length + 12;  // length, type, data, checksum
  }
}

int channels_of_png(std::uint64_t color_type) {
  switch (color_type) {
    case 0:  // grey
      return 1;
    case 4:  // grey and alpha
      return 2;
    case 6:  // colour and alpha
      return 4;
    default:  // colour, palette
      return 3;
  }
}

// libwebp keeps 32-bit pixels of a lossless picture. Beside a lossy picture it decodes the alpha channel.
std::int64_t webp_decoder_bytes(const ImageHeader& header, bool lossless) {
  const std::int64_t pixels = std::int64_t{header.width} * header.height;
  return pixels * ((lossless ? 5 : 0) + (header.channels == 4 && !lossless ? 2 : 0));
}

// In a VP8X file the chunk with the pixels comes after chunks with extra data.
bool holds_lossless_pixels(const ByteReader& reader) {
  for (std::uint64_t at = 12; !reader.has(at, "VP8 ");) {
    const auto length = reader.number(at + 4, 4);
    if (!length) return false;
    if (reader.has(at, "VP8L")) return true;
    at += 8 + *length + (*length & 1U);
  }
  return false;
}

}  // namespace

Result<ImageHeader> inspect_png(std::span<const std::uint8_t> file) {
  const ByteReader reader(file, ByteOrder::big);
  std::span<const std::uint8_t> exif;
  const bool complete = walk_png(file, [&](std::uint32_t type, std::uint64_t at, std::uint64_t length) {
    if (type == kExif && exif.empty())
      exif = file.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(length));
  });
  if (!complete) return input_error("truncated PNG: it ends before its end chunk");
  if (!reader.has(12, "IHDR")) return input_error("damaged PNG: it does not begin with an IHDR chunk");
  ImageHeader header{ImageFormat::png};
  header.width = static_cast<int>(reader.number(16, 4).value_or(0) & 0x7fffffff);
  header.height = static_cast<int>(reader.number(20, 4).value_or(0) & 0x7fffffff);
  header.bits = static_cast<int>(reader.number(24, 1).value_or(0));
  const std::uint64_t color_type = reader.number(25, 1).value_or(0);
  header.channels = channels_of_png(color_type);
  header.has_palette = color_type == 3;
  header.orientation = exif_orientation(exif);
  return header;
}

// BITMAPFILEHEADER (14 bytes: signature, file size, reserved, offset of the pixels), then a header that
// begins with its own size. A size of 12 is the old OS/2 header with 16-bit fields. A negative height means
// top-down rows.
Result<ImageHeader> inspect_bmp(std::span<const std::uint8_t> file) {
  const ByteReader reader(file, ByteOrder::little);
  const auto pixels_at = reader.number(10, 4);
  const auto header_size = reader.number(14, 4);
  if (!pixels_at || !header_size || !reader.number(14, 16))
    return input_error("truncated BMP: its header is cut");
  ImageHeader header{ImageFormat::bmp};
  std::int64_t height = 0;
  std::uint64_t bits_per_pixel = 0;
  std::uint64_t compression = 0;
  if (*header_size == 12) {
    header.width = static_cast<int>(*reader.number(18, 2));
    height = static_cast<std::int64_t>(*reader.number(20, 2));
    bits_per_pixel = *reader.number(24, 2);
  } else {
    header.width = static_cast<int>(*reader.number(18, 4) & 0x7fffffff);
    height = static_cast<std::int32_t>(*reader.number(22, 4));
    bits_per_pixel = *reader.number(28, 2);
    compression = reader.number(30, 4).value_or(0);
  }
  height = std::llabs(height);
  if (height > 0x7fffffff) return input_error("damaged BMP: its height is out of range");
  header.height = static_cast<int>(height);
  // Rows are padded to 4 bytes. Run-length-coded pixels (1, 2) have no fixed size; only the decoder can
  // check them.
  if (compression == 0 || compression == 3) {
    const std::uint64_t row_bits = static_cast<std::uint64_t>(header.width) * (bits_per_pixel & 0xff);
    const std::uint64_t needed = (row_bits + 31) / 32 * 4 * static_cast<std::uint64_t>(height);
    if (*pixels_at > reader.size() || needed > reader.size() - *pixels_at)
      return input_error("truncated BMP: rows of pixels are missing");
  }
  return header;
}

// RIFF: size of the rest, "WEBP", then chunks: VP8 (lossy), VP8L (lossless) or VP8X (extended).
Result<ImageHeader> inspect_webp(std::span<const std::uint8_t> file) {
  const ByteReader reader(file, ByteOrder::little);
  const std::uint64_t riff_size = reader.number(4, 4).value_or(0);
  if (riff_size + 8 > reader.size())
    return input_error("truncated WebP: it is shorter than the size in its header");
  ImageHeader header{ImageFormat::webp};
  if (reader.has(12, "VP8X")) {
    header.width = static_cast<int>(reader.number(24, 3).value_or(0)) + 1;
    header.height = static_cast<int>(reader.number(27, 3).value_or(0)) + 1;
    if ((reader.number(20, 1).value_or(0) & 0x10U) != 0) header.channels = 4;
    header.decoder_bytes = webp_decoder_bytes(header, holds_lossless_pixels(reader));
  } else if (reader.has(12, "VP8L")) {
    // After the signature byte 2F: 14 bits of width − 1, 14 bits of height − 1.
    const std::uint64_t packed = reader.number(21, 4).value_or(0);
    header.width = static_cast<int>(packed & 0x3fff) + 1;
    header.height = static_cast<int>(packed >> 14U & 0x3fff) + 1;
    if ((packed >> 28U & 1U) != 0) header.channels = 4;
    header.decoder_bytes = webp_decoder_bytes(header, true);
  } else if (reader.has(12, "VP8 ")) {
    // After the frame tag (3 bytes) and start code 9D 01 2A: 14 bits each, the upper two are a scale.
    header.width = static_cast<int>(reader.number(26, 2).value_or(0) & 0x3fff);
    header.height = static_cast<int>(reader.number(28, 2).value_or(0) & 0x3fff);
  } else {
    return input_error("damaged WebP: it contains no image");
  }
  return header;
}

Result<ImageHeader> inspect_image(std::span<const std::uint8_t> file) {
  auto header = inspect_by_signature(file);
  if (!header) return header;
  if (header->width <= 0 || header->height <= 0) return input_error("damaged: its header has 0 pixels");
  if (static_cast<std::int64_t>(header->width) * header->height > kMaximumPixels)
    return input_error(fmt::format("{} x {} pixels exceed the limit of {} pixels", header->width,
                                   header->height, kMaximumPixels));
  return header;
}

}  // namespace headroom::media
