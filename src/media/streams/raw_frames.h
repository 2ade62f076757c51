// Files and FIFOs of raw frames: one frame after the other, rows packed, without headers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "media/video_reader.h"

namespace headroom::media {

enum class PixelOrder { bgr, rgb, gray };

// "FILE,1280x720,rgb"
struct RawFrames {
  std::string path;
  PictureSize size;
  PixelOrder order = PixelOrder::bgr;
  std::size_t frame_bytes() const { return order == PixelOrder::gray ? size.bytes() / 3 : size.bytes(); }
  // Frames can come from a FIFO only once.
  bool is_fifo() const;
};

Result<RawFrames> parse_raw_frames(std::string_view value);

// Converts a frame in place. `frame` has the frame in its last bytes, as read, and room for 8-bit BGR.
void to_bgr(std::uint8_t* frame, PictureSize size, PixelOrder order);

}  // namespace headroom::media
