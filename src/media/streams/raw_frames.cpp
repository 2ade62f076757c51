#include "media/streams/raw_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/text.h"
#include "media/image_header.h"

namespace headroom::media {
namespace {

std::optional<PixelOrder> pixel_order(std::string_view name) {
  if (name == "bgr") return PixelOrder::bgr;
  if (name == "rgb") return PixelOrder::rgb;
  if (name == "gray") return PixelOrder::gray;
  return std::nullopt;
}

std::optional<PictureSize> picture_size(std::string_view text) {
  const auto sides = split(text, 'x');
  if (sides.size() != 2) return std::nullopt;
  const auto width = parse_number<int>(sides[0]), height = parse_number<int>(sides[1]);
  if (!width || !height || *width <= 0 || *height <= 0) return std::nullopt;
  if (std::int64_t{*width} * *height > kMaximumPixels) return std::nullopt;
  return PictureSize{*width, *height};
}

}  // namespace

bool RawFrames::is_fifo() const {
  std::error_code ignored;
  return std::filesystem::is_fifo(path, ignored);
}

Result<RawFrames> parse_raw_frames(std::string_view value) {
  // From the right: the file's name may have commas.
  const std::size_t order_comma = value.rfind(',');
  const std::size_t size_comma = order_comma == std::string_view::npos || order_comma == 0
                                     ? std::string_view::npos
                                     : value.rfind(',', order_comma - 1);
  const std::string what = fmt::format("cannot use the source raw={}", value);
  if (size_comma == std::string_view::npos || size_comma == 0)
    return usage_error(what, "it lacks the file, the size or the pixel format",
                       "use raw=FILE,WIDTHxHEIGHT,FORMAT, such as raw=frames.rgb,1280x720,rgb");
  const std::string_view size_text = value.substr(size_comma + 1, order_comma - size_comma - 1);
  const auto size = picture_size(to_lower(trim(size_text)));
  if (!size)
    return usage_error(
        what, fmt::format("'{}' is not a frame size", size_text),
        fmt::format("use WIDTHxHEIGHT, such as 1280x720, of at most {} pixels", kMaximumPixels));
  const std::string_view order_text = value.substr(order_comma + 1);
  const auto order = pixel_order(to_lower(trim(order_text)));
  if (!order)
    return usage_error(what, fmt::format("unknown pixel format '{}'", order_text), "use rgb, bgr or gray");
  return RawFrames{std::string(value.substr(0, size_comma)), *size, *order};
}

void to_bgr(std::uint8_t* frame, PictureSize size, PixelOrder order) {
  const std::size_t pixels = size.bytes() / 3;
  if (order == PixelOrder::rgb)
    for (std::size_t i = 0; i < pixels; ++i) std::swap(frame[3 * i], frame[3 * i + 2]);
  if (order == PixelOrder::gray)
    for (std::size_t i = 0; i < pixels; ++i) std::fill_n(frame + 3 * i, 3, frame[2 * pixels + i]);
}

}  // namespace headroom::media
