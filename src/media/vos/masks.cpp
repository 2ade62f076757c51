#include "media/vos/masks.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom::media::vos {

BinaryMask mask_of(const LabelPicture& labels, int value) {
  BinaryMask mask{labels.width, labels.height, std::vector<std::uint8_t>(labels.values.size())};
  if (value == 0) {
    for (std::size_t i = 0; i < mask.pixels.size(); ++i) mask.pixels[i] = labels.values[i] != 0;
  } else {
    for (std::size_t i = 0; i < mask.pixels.size(); ++i) mask.pixels[i] = labels.values[i] == value;
  }
  return mask;
}

Result<BinaryMask> read_mask(MediaEngine& engine, const std::string& path, int value) {
  auto labels = engine.read_labels(path);
  if (!labels) return forward_error(labels);
  return mask_of(*labels, value);
}

Status write_mask(MediaEngine& engine, const BinaryMask& mask, const std::string& path) {
  return engine.write_labels({mask.width, mask.height, mask.pixels}, path);
}

Status add_mask(LabelPicture& labels, const BinaryMask& mask, int value) {
  if (value < 1 || value > 255)
    return input_error(fmt::format("cannot write object {} into an indexed PNG", value),
                       "values are 1 to 255", "write one file for each object");
  if (labels.values.empty())
    labels = {mask.width, mask.height, std::vector<std::uint8_t>(mask.pixels.size())};
  if (labels.width != mask.width || labels.height != mask.height ||
      labels.values.size() != mask.pixels.size())
    return internal_error("cannot join masks of different sizes");
  for (std::size_t i = 0; i < mask.pixels.size(); ++i)
    if (mask.pixels[i] != 0) labels.values[i] = static_cast<std::uint8_t>(value);
  return {};
}

bool is_empty(const BinaryMask& mask) {
  return std::ranges::all_of(mask.pixels, [](std::uint8_t pixel) { return pixel == 0; });
}

}  // namespace headroom::media::vos
