// Frames of one video, camera or stream in order. Used by the scanning, decoding and annotating processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace headroom::media {

struct PictureSize {
  int width = 0, height = 0;
  // The size as 8-bit BGR.
  std::size_t bytes() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3; }
  friend bool operator==(const PictureSize&, const PictureSize&) = default;
};

// A decoded picture: 8-bit BGR, rows packed.
struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> bgr;
};

// Returns the memory for a picture of this size (8-bit BGR, rows packed), or null if there is not enough
// space now. It is called as soon as the picture's size is known, before the picture is decoded. It is called
// again if the size turns out to be different (a video whose frames are turned); the last call counts. This
// way a frame is decoded directly into shared memory, without a copy.
using AllocateFrame = std::function<std::uint8_t*(PictureSize)>;

// Gives the memory of `picture`, which grows as needed.
AllocateFrame allocate_in(Picture& picture);

enum class Decoded {
  frame,     // written to the memory of AllocateFrame
  no_space,  // AllocateFrame returned null; the next call delivers the same frame
  end,       // no more frames
};

class VideoReader {
 public:
  virtual ~VideoReader() = default;
  // Reads the next frame. A frame that cannot be decoded is an error; the next call continues with the
  // frame after it.
  virtual Result<Decoded> next_into(const AllocateFrame& allocate_frame) = 0;
  // Drops the frame that did not fit.
  virtual void skip_frame() = 0;
  virtual PictureSize size() const = 0;
  virtual std::int64_t frame_count() const = 0;  // from the container; 0 if unknown
  // How long the last next_into waited for a camera's sensor or for the network; 0 for files.
  virtual Nanoseconds sensor_wait() const { return {}; }
  // Stops all work on later frames until the next call of next_into.
  virtual void pause() {}

  // Reads the next frame. Returns false at the end.
  Result<bool> next(Picture& picture);
};

}  // namespace headroom::media
