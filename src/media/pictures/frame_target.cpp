#include "media/pictures/frame_target.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headroom::media {
namespace {

constexpr int kRowsAtOnce = 16;  // of a turned picture: they share the cache lines of the frame

bool is_transposed(int orientation) { return orientation >= 5; }

}  // namespace

PictureSize shown_size(const ImageHeader& header) {
  if (is_transposed(header.orientation)) return {header.height, header.width};
  return {header.width, header.height};
}

// Orientation 1 to 4: upright, mirrored, upside down, mirrored upside down. 5 to 8: transposed, and then
// upright, mirrored, upside down, mirrored upside down in the order 5, 6, 8, 7.
FrameTarget::FrameTarget(std::uint8_t* bgr, const ImageHeader& header)
    : origin_(bgr), width_(header.width), height_(header.height) {
  const PictureSize shown = shown_size(header);
  const int orientation = header.orientation;
  std::ptrdiff_t across = 3, down = 3 * std::ptrdiff_t{shown.width};
  const bool mirrored = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool upside_down = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  if (mirrored) {
    origin_ += across * (shown.width - 1);
    across = -across;
  }
  if (upside_down) {
    origin_ += down * (shown.height - 1);
    down = -down;
  }
  if (is_transposed(orientation)) std::swap(across, down);
  step_x_ = across;
  step_y_ = down;
}

void FrameTarget::place(const std::uint8_t* bgr, std::size_t stride, int x, int y, int columns,
                        int rows) const {
  if (step_x_ == 3) {
    for (int i = 0; i < rows; ++i)
      std::memcpy(row(y + i) + x * step_x_, bgr + static_cast<std::size_t>(i) * stride,
                  static_cast<std::size_t>(columns) * 3);
    return;
  }
  for (int first = 0; first < rows; first += kRowsAtOnce) {
    const int last = std::min(rows, first + kRowsAtOnce);
    for (int column = 0; column < columns; ++column) {
      const std::uint8_t* from = bgr + static_cast<std::size_t>(first) * stride + 3 * std::size_t(column);
      std::uint8_t* to = row(y + first) + (x + column) * step_x_;
      for (int i = first; i < last; ++i, from += stride, to += step_y_) std::memcpy(to, from, 3);
    }
  }
}

void scale_into(const DeepPicture& picture, const FrameTarget& frame) {
  const auto scale_to = [&](std::uint8_t* scaled) {
    if (picture.words.empty())
      scale_to_8_bit(picture.floats, scaled);
    else
      scale_to_8_bit(picture.words, scaled);
  };
  const std::size_t stride = static_cast<std::size_t>(frame.width()) * 3;
  if (picture.channels == 3 && frame.upright()) return scale_to(frame.row(0));

  std::vector<std::uint8_t> scaled(std::max(picture.words.size(), picture.floats.size()));
  scale_to(scaled.data());
  if (picture.channels == 3) return frame.place(scaled.data(), stride, 0, 0, frame.width(), frame.height());
  std::vector<std::uint8_t> bgr(stride);
  const std::uint8_t* grey = scaled.data();
  for (int y = 0; y < frame.height(); ++y) {
    for (std::size_t i = 0; i < stride; i += 3) bgr[i] = bgr[i + 1] = bgr[i + 2] = *grey++;
    frame.place(bgr.data(), stride, 0, y, frame.width(), 1);
  }
}

}  // namespace headroom::media
