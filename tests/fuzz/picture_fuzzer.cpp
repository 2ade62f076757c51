// Decodes any bytes as a picture and as a mask, as the plug-in does. A decoder must stay inside the frame.
#include <algorithm>
#include <span>
#include <vector>

#include "fuzz.h"
#include "media/pictures/decode_picture.h"

namespace {

constexpr std::int64_t kMostMemory = 32 << 20;  // larger pictures only take longer
constexpr std::size_t kGuard = 64;
constexpr std::uint8_t kGuardValue = 0xAB;

}  // namespace

void fuzz(std::string_view text) {
  using namespace headroom::media;
  const std::span<const std::uint8_t> file(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  const auto header = inspect_image(file);
  if (!header || decoding_memory(*header, {}).count > kMostMemory) return;
  const std::size_t size = shown_size(*header).bytes();
  std::vector<std::uint8_t> frame(size + kGuard, kGuardValue);
  const auto decoded = decode_picture(file, *header, frame.data());
  require(decoded || !decoded.error().what.empty());
  require(std::all_of(frame.begin() + static_cast<std::ptrdiff_t>(size), frame.end(),
                      [](std::uint8_t value) { return value == kGuardValue; }));
  const auto ids = decode_mask_ids(file, *header);
  const auto labels = decode_labels(file, *header);
  require(!labels || labels->values.size() * 3 == PictureSize{labels->width, labels->height}.bytes());
  require(!ids || (std::is_sorted(ids->begin(), ids->end()) && !std::count(ids->begin(), ids->end(), 0)));
}
