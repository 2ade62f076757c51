#include "media/pictures/decode_picture.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <new>
#include <set>

namespace headroom::media {
namespace {

Status decode_8_bits(EncodedBytes file, ImageFormat format, const FrameTarget& frame) {
  switch (format) {
    case ImageFormat::jpeg:
      return decode_jpeg(file, frame);
    case ImageFormat::png:
      return decode_png(file, frame);
    case ImageFormat::bmp:
      return decode_bmp(file, frame);
    case ImageFormat::webp:
      return decode_webp(file, frame);
    case ImageFormat::tiff:
      return decode_tiff(file, frame);
  }
  return input_error("unknown format");
}

Result<DeepPicture> decode_deep(EncodedBytes file, const ImageHeader& header) {
  if (header.format == ImageFormat::png) return decode_deep_png(file, header);
  if (header.format == ImageFormat::tiff) return decode_deep_tiff(file, header);
  return input_error("JPEG of more than 8 bits is not supported");
}

// Rounds like the conversion of other samples; what is no number has no id.
void add_ids(const std::vector<float>& values, std::size_t step, std::set<int>& ids) {
  float last = 0;  // neighbouring pixels usually have the same value
  for (std::size_t i = 0; i < values.size(); i += step) {
    const float value = values[i];
    if (value == last || !std::isfinite(value)) continue;
    last = value;
    ids.insert(static_cast<int>(std::clamp<double>(std::nearbyint(double{value}), INT32_MIN, INT32_MAX)));
  }
}

template <class Value>
void add_ids(const std::vector<Value>& values, std::size_t step, std::set<int>& ids) {
  std::bitset<65536> seen;
  for (std::size_t i = 0; i < values.size(); i += step) seen.set(values[i]);
  for (std::size_t id = 0; id < seen.size(); ++id)
    if (seen[id]) ids.insert(static_cast<int>(id));
}

Status collect_ids(EncodedBytes file, ImageHeader header, std::set<int>& ids) {
  if (header.has_palette) {
    const auto indices = decode_png_indices(file, header);
    if (!indices) return tl::unexpected<Error>(indices.error());
    add_ids(*indices, 1, ids);
    return {};
  }
  if (header.bits > 8) {
    const auto picture = decode_deep(file, header);
    if (!picture) return tl::unexpected<Error>(picture.error());
    const auto step = static_cast<std::size_t>(picture->channels);
    add_ids(picture->words, step, ids);
    add_ids(picture->floats, step, ids);
    return {};
  }
  header.orientation = 1;
  std::vector<std::uint8_t> bgr(shown_size(header).bytes());
  if (auto decoded = decode_8_bits(file, header.format, FrameTarget(bgr.data(), header)); !decoded)
    return decoded;
  add_ids(bgr, 3, ids);
  return {};
}

}  // namespace

Status decode_picture(EncodedBytes file, const ImageHeader& header, std::uint8_t* bgr) {
  const FrameTarget frame(bgr, header);
  if (header.bits <= 8) return decode_8_bits(file, header.format, frame);
  const auto picture = decode_deep(file, header);
  if (!picture) return tl::unexpected<Error>(picture.error());
  scale_into(*picture, frame);
  return {};
}

Result<LabelPicture> decode_labels(EncodedBytes file, ImageHeader header) {
  if (header.format != ImageFormat::png)
    return input_error("it is not a PNG; write masks as PNG, indexed or grey");
  if (header.bits > 8) return input_error("it has 16 bits a pixel; write masks with 8 bits, indexed or grey");
  LabelPicture labels{header.width, header.height};
  if (header.has_palette || header.channels <= 2) {
    auto values = decode_png_indices(file, header);
    if (!values) return forward_error(values);
    labels.values = std::move(*values);
    return labels;
  }
  header.orientation = 1;
  std::vector<std::uint8_t> bgr(shown_size(header).bytes());
  if (auto decoded = decode_png(file, FrameTarget(bgr.data(), header)); !decoded)
    return forward_error(decoded);
  labels.values.resize(bgr.size() / 3);
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    const std::uint8_t* pixel = &bgr[3 * i];
    if (pixel[0] != pixel[1] || pixel[0] != pixel[2])
      return input_error("its colours are not numbers of objects; write masks as PNG, indexed or grey");
    labels.values[i] = pixel[0];
  }
  return labels;
}

Result<std::vector<int>> decode_mask_ids(EncodedBytes file, const ImageHeader& header) {
  std::set<int> ids;
  if (auto collected = collect_ids(file, header, ids); !collected) return forward_error(collected);
  ids.erase(0);
  return std::vector<int>(ids.begin(), ids.end());
}

}  // namespace headroom::media
