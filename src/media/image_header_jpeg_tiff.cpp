// JPEG (ITU-T T.81 annex B): segments that begin with FF xx and usually have a length; entropy-coded data
// after each SOS, which ends at the next marker; EOI at the end. An EXIF thumbnail is a whole JPEG inside a
// segment, so a search for EOI alone would find the thumbnail's end. Walking the segments avoids that.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "media/image_header_formats.h"

namespace headroom::media {
namespace {

constexpr std::uint8_t kStartOfImage = 0xD8, kEndOfImage = 0xD9, kStartOfScan = 0xDA, kApplication1 = 0xE1;
constexpr std::uint8_t kFirstRestart = 0xD0, kLastRestart = 0xD7, kTemporary = 0x01;

bool stands_alone(std::uint8_t marker) {
  return (marker >= kFirstRestart && marker <= kStartOfImage) || marker == kTemporary;
}

// SOF0..SOF15 without DHT (C4), JPG (C8) and DAC (CC), which share the range.
bool is_start_of_frame(std::uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Finds the marker that ends entropy-coded data: FF followed by anything but a stuffed zero, a fill byte or
// a restart marker. Returns the file's size if there is none.
std::size_t end_of_scan(std::span<const std::uint8_t> file, std::size_t at) {
  while (at + 1 < file.size()) {
    const void* found = std::memchr(file.data() + at, 0xFF, file.size() - 1 - at);
    if (found == nullptr) break;
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - file.data());
    const std::uint8_t next = file[at + 1];
    if (next == 0xFF) {
      ++at;
    } else if (next == 0 || (next >= kFirstRestart && next <= kLastRestart)) {
      at += 2;
    } else {
      return at;
    }
  }
  return file.size();
}

bool is_progressive(std::uint8_t start_of_frame) { return (start_of_frame & 3U) == 2; }

// SOF: length, bits, height, width, number of components; then for each component its id, sampling factors
// (4 bits horizontal, 4 vertical) and table. Coefficients have 16 bits each, one per pixel of the
// component.
std::int64_t coefficient_bytes(const ByteReader& reader, std::size_t at, const ImageHeader& header) {
  const std::int64_t pixels = std::int64_t{header.width} * header.height;
  std::uint64_t most = 1, sum = 0;
  for (int i = 0; i < header.channels; ++i) {
    const std::uint64_t sampling = reader.number(at + 9 + 3 * static_cast<std::size_t>(i), 1).value_or(0x11);
    const std::uint64_t share = (sampling >> 4U) * (sampling & 15U);
    most = std::max(most, share);
    sum += share;
  }
  return pixels * 2 * static_cast<std::int64_t>(sum) / static_cast<std::int64_t>(most);
}

// An APP1 segment with EXIF: its length, "Exif", two zeros, the data. Returns 1 for other segments.
int orientation_in(std::span<const std::uint8_t> file, std::size_t at, std::uint64_t length) {
  constexpr std::size_t kBefore = 8;
  if (length <= kBefore || length > file.size() - at) return 1;
  if (!ByteReader(file, ByteOrder::big).has(at + 2, std::string_view("Exif\0\0", 6))) return 1;
  return exif_orientation(file.subspan(at + kBefore, static_cast<std::size_t>(length) - kBefore));
}

enum Tag : std::uint16_t {
  kWidth = 256,
  kHeight = 257,
  kBitsPerSample = 258,
  kCompression = 259,
  kPhotometric = 262,
  kStripOffsets = 273,
  kOrientation = 274,
  kSamplesPerPixel = 277,
  kRowsPerStrip = 278,
  kStripByteCounts = 279,
  kTileWidth = 322,
  kTileLength = 323,
  kTileOffsets = 324,
  kTileByteCounts = 325,
  kSampleFormat = 339,
};

constexpr std::uint64_t kFloatSamples = 3, kSgiLog = 34676, kSgiLog24 = 34677, kRgb = 2, kLogLuv = 32845;
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

// libtiff decodes one strip or tile at a time. It converts pixels of 8 bits to four channels.
struct StripOrTile {
  std::int64_t width = 0, rows = 0;  // 0: the picture's width or height
  std::int64_t decoder_bytes(const ImageHeader& header, bool converted) const {
    const std::int64_t across = width > 0 ? width : header.width;
    const std::int64_t down = rows > 0 && (width > 0 || rows < header.height) ? rows : header.height;
    const std::int64_t sample = (header.bits + 7) / 8;
    // An invalid tile size must only not overflow here; the decoder rejects it.
    const std::int64_t pixels = std::min(across, kMaximumPixels) * std::min(down, kMaximumPixels);
    return std::min(pixels, kMaximumPixels) * (sample * header.channels + (converted ? 4 : 0));
  }
};

// Whether libtiff converts the pixels to 8-bit colours. Grey and colour pictures of more bits keep them.
bool is_converted(const ImageHeader& header, std::uint64_t photometric, std::uint64_t channels) {
  if (header.bits <= 8) return true;
  if (photometric == kLogLuv && channels == 3) return false;
  return photometric > kRgb || (channels != 1 && channels != 3 && channels != 4);
}

bool pixels_lie_inside(const ByteReader& reader, const Values& offsets, const Values& byte_counts) {
  for (std::uint64_t i = 0; i < offsets.count; ++i) {
    const auto offset = offsets.read(reader, i);
    const auto bytes = byte_counts.read(reader, i);
    if (!offset || !bytes || *offset > reader.size() || *bytes > reader.size() - *offset) return false;
  }
  return offsets.count > 0;
}

}  // namespace

int exif_orientation(std::span<const std::uint8_t> exif) {
  if (exif.size() < 8 || exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M')) return 1;
  const ByteReader reader(exif, exif[0] == 'I' ? ByteOrder::little : ByteOrder::big);
  if (reader.number(2, 2) != 42U) return 1;
  const std::uint64_t directory = reader.number(4, 4).value_or(0);
  const std::uint64_t entries = reader.number(directory, kClassic.entry_count_bytes).value_or(0);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = directory + kClassic.entry_count_bytes + i * kClassic.entry_bytes;
    if (reader.number(entry, 2) != kOrientation) continue;
    const std::uint64_t value = reader.number(entry + 8, 2).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Result<ImageHeader> inspect_jpeg(std::span<const std::uint8_t> file) {
  const ByteReader reader(file, ByteOrder::big);
  ImageHeader header{ImageFormat::jpeg};
  bool scan_seen = false, application_seen = false;  // EXIF must be the first APP1; libraries read no other
  std::int64_t coefficients = 0;
  std::size_t at = 2;  // after SOI
  for (;;) {
    // A marker should follow a segment at once. Decoders skip stray bytes, and so does this reader.
    while (at < file.size() && file[at] != 0xFF) ++at;
    while (at < file.size() && file[at] == 0xFF) ++at;
    if (at >= file.size()) return input_error("truncated JPEG: it ends before its end marker");
    const std::uint8_t marker = file[at++];
    if (marker == 0 || stands_alone(marker)) continue;
    if (marker == kEndOfImage) {
      if (!scan_seen) return input_error("damaged JPEG: it contains no image");
      return header;
    }
    const auto length = reader.number(at, 2);
    if (!length) return input_error("truncated JPEG: it ends inside a segment");
    if (*length < 2) return input_error("damaged JPEG: a segment is shorter than its own length field");
    if (is_start_of_frame(marker)) {
      header.bits = static_cast<int>(reader.number(at + 2, 1).value_or(0));
      header.height = static_cast<int>(reader.number(at + 3, 2).value_or(0));
      header.width = static_cast<int>(reader.number(at + 5, 2).value_or(0));
      header.channels = static_cast<int>(reader.number(at + 7, 1).value_or(0));
      coefficients = coefficient_bytes(reader, at, header);
      if (is_progressive(marker)) header.decoder_bytes = coefficients;
    }
    if (marker == kApplication1 && !std::exchange(application_seen, true))
      header.orientation = orientation_in(file, at, *length);
    // The scan has only some of the components: the decoder keeps the coefficients until it has all.
    if (marker == kStartOfScan && static_cast<int>(reader.number(at + 2, 1).value_or(0)) < header.channels)
      header.decoder_bytes = coefficients;
    at += static_cast<std::size_t>(*length);
    if (at > file.size()) return input_error("truncated JPEG: it ends inside a segment");
    if (marker == kStartOfScan) {
      if (header.width == 0) return input_error("damaged JPEG: pixels come before the size");
      scan_seen = true;
      at = end_of_scan(file, at);
    }
  }
}

// TIFF 6.0 and BigTIFF: a directory of tags, anywhere in the file, with the positions of the strips or
// tiles of pixels. The file is complete if all of them are inside it. Only the first directory is read: the
// first page is the frame.

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
  std::uint64_t photometric = 1, channels = 1;
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
    if (*tag == kPhotometric) photometric = first;
    if (*tag == kOrientation && first >= 1 && first <= 8) header.orientation = static_cast<int>(first);
    if (*tag == kSamplesPerPixel) channels = first;
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
  const bool converted = is_converted(header, photometric, channels);
  header.decoder_bytes = piece.decoder_bytes(header, converted);
  if (converted) {
    header.bits = 8;
    header.is_float = false;
  }
  // Old uncompressed files may lack byte counts; then only the decoder can check the file.
  if (byte_counts.count > 0 && !pixels_lie_inside(reader, offsets, byte_counts)) return truncated();
  return header;
}

}  // namespace headroom::media
