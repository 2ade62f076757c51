// TIFF 6.0 and BigTIFF: a directory of tags, anywhere in the file, with the positions of the strips or
// tiles of pixels. The file is complete if all of them are inside it. Only the first directory is read: the
// first page is the frame.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "media/byte_reader.h"
#include "media/image_header_formats.h"

namespace headroom::media {
namespace {

enum Tag : std::uint16_t {
  kWidth = 256,
  kHeight = 257,
  kBitsPerSample = 258,
  kCompression = 259,
  kStripOffsets = 273,
  kSamplesPerPixel = 277,
  kRowsPerStrip = 278,
  kStripByteCounts = 279,
  kTileWidth = 322,
  kTileLength = 323,
  kTileOffsets = 324,
  kTileByteCounts = 325,
  kSampleFormat = 339,
};

constexpr std::uint64_t kFloatSamples = 3, kSgiLog = 34676, kSgiLog24 = 34677;
constexpr std::uint64_t kMaximumBitsPerSample = 64;  // a double; more is invalid

// Field widths differ between the two kinds of TIFF.
struct Layout {
  unsigned offset_bytes;  // size of an offset or count
  unsigned entry_count_bytes;
  std::uint64_t entry_bytes;
};
constexpr Layout kClassic{4, 2, 12};
constexpr Layout kBig{8, 8, 20};

unsigned bytes_of_type(std::uint64_t type) {
  switch (type) {
    case 1:  // BYTE
      return 1;
    case 3:  // SHORT
      return 2;
    case 4:  // LONG
      return 4;
    case 16:  // LONG8
      return 8;
    default:
      return 0;
  }
}

// The values of one tag: position in the file, number and width.
struct Values {
  std::uint64_t at = 0, count = 0;
  unsigned width = 0;
  std::optional<std::uint64_t> read(const ByteReader& reader, std::uint64_t i) const {
    if (i >= count || width == 0) return std::nullopt;
    return reader.number(at + i * width, width);
  }
};

std::optional<Values> read_entry(const ByteReader& reader, const Layout& layout, std::uint64_t entry) {
  Values values;
  values.width = bytes_of_type(reader.number(entry + 2, 2).value_or(0));
  values.count = reader.number(entry + 4, layout.offset_bytes).value_or(0);
  const std::uint64_t value_field = entry + 4 + layout.offset_bytes;
  // Values are stored in the entry itself if they fit. A count beyond the file's size is invalid and would
  // overflow.
  if (values.count > reader.size()) return std::nullopt;
  if (values.count * values.width <= layout.offset_bytes) {
    values.at = value_field;
  } else {
    const auto offset = reader.number(value_field, layout.offset_bytes);
    if (!offset) return std::nullopt;
    values.at = *offset;
  }
  return values;
}

// libtiff decodes one strip or tile at a time, in addition to its raw bytes. OpenCV converts 8-bit pixels
// to four channels.
struct StripOrTile {
  std::int64_t width = 0, rows = 0;  // 0: the picture's width or height
  std::int64_t decoder_bytes(const ImageHeader& header) const {
    const std::int64_t across = width > 0 ? width : header.width;
    const std::int64_t down = rows > 0 && (width > 0 || rows < header.height) ? rows : header.height;
    const std::int64_t sample = (header.bits + 7) / 8;
    // An invalid tile size must only not overflow here; the decoder rejects it.
    const std::int64_t pixels = std::min(across, kMaximumPixels) * std::min(down, kMaximumPixels);
    return std::min(pixels, kMaximumPixels) * (2 * sample * header.channels + (header.bits <= 8 ? 4 : 0));
  }
};

bool pixels_lie_inside(const ByteReader& reader, const Values& offsets, const Values& byte_counts) {
  for (std::uint64_t i = 0; i < offsets.count; ++i) {
    const auto offset = offsets.read(reader, i);
    const auto bytes = byte_counts.read(reader, i);
    if (!offset || !bytes || *offset > reader.size() || *bytes > reader.size() - *offset) return false;
  }
  return offsets.count > 0;
}

}  // namespace

Result<ImageHeader> inspect_tiff(std::span<const std::uint8_t> file) {
  const ByteReader reader(file, file[0] == 'I' ? ByteOrder::little : ByteOrder::big);
  const Layout& layout = reader.number(2, 2) == 43U ? kBig : kClassic;
  const auto truncated = [] {
    return input_error("truncated TIFF: its directory or pixels lie beyond its end");
  };

  const auto directory = reader.number(layout.offset_bytes, layout.offset_bytes);
  if (!directory) return truncated();
  const auto entries = reader.number(*directory, layout.entry_count_bytes);
  if (!entries || *entries > reader.size() / layout.entry_bytes) return truncated();

  ImageHeader header{ImageFormat::tiff};
  header.bits = 1;  // TIFF's defaults
  header.channels = 1;
  StripOrTile piece;
  Values offsets;
  Values byte_counts;
  std::uint64_t entry = *directory + layout.entry_count_bytes;
  for (std::uint64_t i = 0; i < *entries; ++i, entry += layout.entry_bytes) {
    const auto tag = reader.number(entry, 2);
    if (!tag) return truncated();
    const auto values = read_entry(reader, layout, entry);
    if (!values) return truncated();
    const auto first = std::min<std::uint64_t>(values->read(reader, 0).value_or(0), 0x7fffffff);
    if (*tag == kWidth) header.width = static_cast<int>(first);
    if (*tag == kHeight) header.height = static_cast<int>(first);
    if (*tag == kBitsPerSample)
      header.bits = static_cast<int>(std::min<std::uint64_t>(first, kMaximumBitsPerSample));
    if (*tag == kSamplesPerPixel) header.channels = static_cast<int>(std::clamp<std::uint64_t>(first, 1, 4));
    if (*tag == kRowsPerStrip || *tag == kTileLength) piece.rows = static_cast<std::int64_t>(first);
    if (*tag == kTileWidth) piece.width = static_cast<std::int64_t>(first);
    if (*tag == kSampleFormat && first == kFloatSamples) header.is_float = true;
    // 16-bit logarithmic luminance is decoded to floats.
    if (*tag == kCompression && (first == kSgiLog || first == kSgiLog24)) header.is_float = true;
    if (*tag == kStripOffsets || *tag == kTileOffsets) offsets = *values;
    if (*tag == kStripByteCounts || *tag == kTileByteCounts) byte_counts = *values;
  }
  if (header.is_float) header.bits = std::max(header.bits, 32);
  header.decoder_bytes = piece.decoder_bytes(header);
  // Old uncompressed files may lack byte counts; then only the decoder can check the file.
  if (byte_counts.count > 0 && !pixels_lie_inside(reader, offsets, byte_counts)) return truncated();
  return header;
}

}  // namespace headroom::media
