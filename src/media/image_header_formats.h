// One reader per format, for inspect_image; private to the image header readers.
#pragma once

#include <cstdint>
#include <span>

#include "media/image_header.h"

namespace headroom::media {

Result<ImageHeader> inspect_jpeg(std::span<const std::uint8_t> file);
Result<ImageHeader> inspect_png(std::span<const std::uint8_t> file);
Result<ImageHeader> inspect_bmp(std::span<const std::uint8_t> file);
Result<ImageHeader> inspect_webp(std::span<const std::uint8_t> file);
Result<ImageHeader> inspect_tiff(std::span<const std::uint8_t> file);

}  // namespace headroom::media
