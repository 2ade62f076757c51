// inspect_image and png_palette with any bytes: accepted images respect the documented bounds.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "media/image_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> file(data, size);
  const auto header = headroom::media::inspect_image(file);
  if (header && (header->width <= 0 || header->height <= 0 ||
                 std::int64_t{header->width} * header->height > headroom::media::kMaximumPixels))
    std::abort();
  if (headroom::media::png_palette(file).size() * 3 > size) std::abort();
  return 0;
}
