// One reader per format, for inspect_image, and their bounds-checked reads; private to the image header
// readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "media/image_header.h"

namespace headroom::media {

Result<ImageHeader> inspect_jpeg(std::span<const std::uint8_t> file);
Result<ImageHeader> inspect_png(std::span<const std::uint8_t> file);
Result<ImageHeader> inspect_bmp(std::span<const std::uint8_t> file);
Result<ImageHeader> inspect_webp(std::span<const std::uint8_t> file);
Result<ImageHeader> inspect_tiff(std::span<const std::uint8_t> file);

// The orientation (1 to 8) in the first directory of EXIF data, which is a TIFF; 1 if it has none.
int exif_orientation(std::span<const std::uint8_t> exif);

enum class ByteOrder { little, big };

class ByteReader {
 public:
  ByteReader(std::span<const std::uint8_t> bytes, ByteOrder order) : bytes_(bytes), order_(order) {}

  std::size_t size() const { return bytes_.size(); }

  // The unsigned number in the `count` (1 to 8) bytes at `at`, or nothing if it reaches beyond the end.
  std::optional<std::uint64_t> number(std::uint64_t at, unsigned count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) return std::nullopt;
    std::uint64_t value = 0;
    for (unsigned i = 0; i < count; ++i) {
      const unsigned from = order_ == ByteOrder::big ? i : count - 1 - i;
      value = value << 8U | bytes_[static_cast<std::size_t>(at) + from];
    }
    return value;
  }

  bool has(std::uint64_t at, std::string_view text) const {
    if (at > bytes_.size() || text.size() > bytes_.size() - at) return false;
    for (std::size_t i = 0; i < text.size(); ++i)
      if (bytes_[static_cast<std::size_t>(at) + i] != static_cast<std::uint8_t>(text[i])) return false;
    return true;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  ByteOrder order_;
};

}  // namespace headroom::media
