// Reads and writes pictures and videos. The engine is a plug-in (libheadroom_media_opencv.so): image and
// video libraries are large, so only the scanning, decoding and annotating processes load it. The conductor
// and measured workers never do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "types/detection.h"
#include "types/source.h"

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
// space now. The engine calls it as soon as the picture's size is known, before it decodes. It calls it again
// if the size turns out to be different (a photo with an EXIF orientation); the last call counts. This way a
// frame is decoded directly into shared memory, without a copy.
using AllocateFrame = std::function<std::uint8_t*(PictureSize)>;

enum class Decoded {
  frame,     // written to the memory of AllocateFrame
  no_space,  // AllocateFrame returned null; the next call delivers the same frame
  end,       // no more frames
};

// Reads the frames of one video or camera in order.
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
  // How long the last next_into waited for a camera's sensor; 0 for files, where grabbing is decoding.
  virtual Nanoseconds sensor_wait() const { return {}; }

  // Reads the next frame. Returns false at the end.
  Result<bool> next(Picture& picture);
};

class MediaEngine {
 public:
  virtual ~MediaEngine() = default;
  virtual std::string version() const = 0;
  // Decodes jpg, jpeg, png, bmp, webp, tiff and tif, recognized by content. Supports 8 and 16 bits and
  // float, grey, colour and palette, with or without alpha (which is dropped). Frames with more than 8 bits
  // (radiometric) are scaled linearly from their 1st to 99th percentile to 0..255. Truncated data is an
  // error instead of a half-grey picture.
  virtual Result<Decoded> decode_image_into(const std::string& path, const AllocateFrame& allocate_frame) = 0;
  // The object ids (non-zero pixel values or palette indices, ascending) in an annotation mask; empty if
  // the mask is empty.
  virtual Result<std::vector<int>> read_mask_ids(const std::string& path) = 0;
  virtual Result<std::unique_ptr<VideoReader>> open_video(const std::string& path) = 0;
  virtual Result<std::unique_ptr<VideoReader>> open_camera(int index) = 0;
  // Draws findings (boxes with class and score, quads, lines, masks) and writes a JPEG.
  virtual Status write_annotated(const Picture& picture, const FrameFindings& findings,
                                 const std::vector<std::string>& class_names, const std::string& path) = 0;

  // Decodes into `picture`, which grows as needed.
  Status decode_image(const std::string& path, Picture& picture);

  // For the scan: from now on, a picture or mask that needs more memory to decode is an error. The needed
  // memory is estimated from the header, before any allocation.
  void bound_memory(Bytes most) { memory_bound_ = most; }

 protected:
  std::optional<Bytes> memory_bound_;
};

// Loads the plug-in from the folders where backends are searched: those of HEADROOM_BACKEND_PATH, the
// executable's folder, and ../lib/headroom relative to that folder. The error names the missing file and the
// packages to install.
Result<std::unique_ptr<MediaEngine>> load_media_engine();

// The function that the plug-in exports.
inline constexpr const char* kMediaEngineSymbol = "headroom_media_engine_v1";
using MediaEngineFunction = MediaEngine* (*)();

}  // namespace headroom::media
