// inspect_image with any bytes: accepted images respect the documented bounds.
#include <span>

#include "fuzz.h"
#include "media/image_header.h"

void fuzz(std::string_view text) {
  const std::span<const std::uint8_t> file(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  const auto header = headroom::media::inspect_image(file);
  if (header && (header->width <= 0 || header->height <= 0 ||
                 std::int64_t{header->width} * header->height > headroom::media::kMaximumPixels ||
                 header->orientation < 1 || header->orientation > 8))
    std::abort();
}
