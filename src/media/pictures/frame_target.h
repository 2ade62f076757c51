// Where a decoder's pixels go. A picture's rows are stored upright or, by its orientation tag (EXIF, TIFF),
// turned and mirrored in one of eight ways. Pixels go straight to where they are shown, so a turned photo
// needs no second picture in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "media/image_header.h"
#include "media/media_engine.h"

namespace headroom::media {

// The size of the picture as it is shown.
PictureSize shown_size(const ImageHeader& header);

class FrameTarget {
 public:
  // `bgr` has the memory of a picture of shown_size(header).
  FrameTarget(std::uint8_t* bgr, const ImageHeader& header);
  int width() const { return width_; }  // as stored
  int height() const { return height_; }
  // The rows lie in the frame as they are stored. Only then may a decoder write to row().
  bool upright() const { return step_x_ == 3 && step_y_ > 0; }
  std::uint8_t* row(int y) const { return origin_ + y * step_y_; }
  // Writes `rows` rows of `columns` BGR pixels, packed `stride` bytes apart; the first pixel's stored
  // position is x, y.
  void place(const std::uint8_t* bgr, std::size_t stride, int x, int y, int columns, int rows) const;

 private:
  std::uint8_t* origin_;  // of the stored pixel 0, 0
  std::ptrdiff_t step_x_, step_y_;
  int width_, height_;
};

// Samples of more than 8 bits, without alpha, rows packed. Three channels are blue, green and red. One of the
// two lists has width × height × channels samples.
struct DeepPicture {
  int channels = 1;
  std::vector<std::uint16_t> words;
  std::vector<float> floats;  // also for signed and for 32- and 64-bit samples
};

// Scales the samples to 8 bits (scale_to_8_bit) and writes them to the frame.
void scale_into(const DeepPicture& picture, const FrameTarget& frame);

}  // namespace headroom::media
