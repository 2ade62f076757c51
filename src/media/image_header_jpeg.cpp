// JPEG (ITU-T T.81 annex B): segments that begin with FF xx and usually have a length; entropy-coded data
// after each SOS, which ends at the next marker; EOI at the end. An EXIF thumbnail is a whole JPEG inside a
// segment, so a search for EOI alone would find the thumbnail's end. Walking the segments avoids that.
#include <algorithm>
#include <cstring>

#include "media/byte_reader.h"
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

// An APP1 segment with EXIF: "Exif", two zeros, then a TIFF whose first directory may contain the
// orientation.
bool turns_picture(std::span<const std::uint8_t> file, std::size_t at, std::uint64_t length) {
  if (length < 16 || !ByteReader(file, ByteOrder::big).has(at + 2, std::string_view("Exif\0\0", 6)))
    return false;
  const auto tiff = file.subspan(at + 8);
  const ByteReader reader(tiff, tiff[0] == 'I' ? ByteOrder::little : ByteOrder::big);
  constexpr std::uint64_t kOrientation = 0x0112, kEntryBytes = 12;
  const std::uint64_t directory = reader.number(4, 4).value_or(0);
  const std::uint64_t entries = reader.number(directory, 2).value_or(0);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = directory + 2 + i * kEntryBytes;
    if (reader.number(entry, 2) == kOrientation) return reader.number(entry + 8, 2).value_or(1) > 1;
  }
  return false;
}

}  // namespace

Result<ImageHeader> inspect_jpeg(std::span<const std::uint8_t> file) {
  const ByteReader reader(file, ByteOrder::big);
  ImageHeader header{ImageFormat::jpeg};
  bool scan_seen = false;
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
    if (marker == kApplication1 && turns_picture(file, at, *length)) header.turned = true;
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

}  // namespace headroom::media
