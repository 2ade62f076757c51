// Reading and writing pictures and videos. The engine is a plug-in (libheadroom_media_opencv.so): image and
// video libraries are large, so only the scanning, decoding and annotating processes load it, never the
// conductor or a measured worker.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/detection.h"
#include "model/source.h"

namespace headroom::media {

struct PictureSize {
  int width = 0, height = 0;
  // As 8-bit BGR.
  std::size_t bytes() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3; }
  friend bool operator==(const PictureSize&, const PictureSize&) = default;
};

// A decoded picture: 8-bit BGR, rows packed.
struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> bgr;
};

// Gives the place where a picture of this size is to be written (8-bit BGR, rows packed), or null if there is
// no room for it now. Called before a picture is decoded, as soon as its size is known, and again if it turns
// out otherwise (a photo turned by its EXIF orientation); the last call counts. So a frame is decoded
// straight into shared memory, without a copy.
using TakeRoom = std::function<std::uint8_t*(PictureSize)>;

enum class Decoded {
  frame,    // written where TakeRoom said
  no_room,  // TakeRoom gave null; the same frame comes with the next call
  end,      // no frame is left
};

// Yields the frames of one video or camera in order.
class VideoReader {
 public:
  virtual ~VideoReader() = default;
  // The next frame. A frame that cannot be decoded is an error; the next call goes on with the one after it.
  virtual Result<Decoded> next_into(const TakeRoom& take_room) = 0;
  // Drops the frame that found no room.
  virtual void pass_over() = 0;
  virtual PictureSize size() const = 0;
  virtual std::int64_t frame_count() const = 0;  // as the container says; 0 if unknown
  // How long the last next_into waited for a camera's sensor; 0 for files, whose grabbing is decoding.
  virtual Nanoseconds sensor_wait() const { return {}; }

  // The next frame, or false at the end.
  Result<bool> next(Picture& picture);
};

class MediaEngine {
 public:
  virtual ~MediaEngine() = default;
  virtual std::string version() const = 0;
  // Decodes jpg, jpeg, png, bmp, webp, tiff, tif by content; 8 and 16 bit and float, grey, colour and
  // palette, with or without alpha (which is dropped). Frames of more than 8 bits (radiometric) are scaled
  // linearly from their 1st..99th percentile to 0..255. Truncated data is an error, not a half-grey picture.
  virtual Result<Decoded> decode_image_into(const std::string& path, const TakeRoom& take_room) = 0;
  // The object ids (non-zero pixel values or palette indices, ascending) that an annotation mask holds; none
  // if the mask is empty.
  virtual Result<std::vector<int>> read_mask_ids(const std::string& path) = 0;
  virtual Result<std::unique_ptr<VideoReader>> open_video(const std::string& path) = 0;
  virtual Result<std::unique_ptr<VideoReader>> open_camera(int index) = 0;
  // Draws findings (boxes with class and score, quads, lines, masks) and writes a JPEG.
  virtual Status write_annotated(const Picture& picture, const FrameFindings& findings,
                                 const std::vector<std::string>& class_names, const std::string& path) = 0;

  // Into a picture of its own, which grows as needed.
  Status decode_image(const std::string& path, Picture& picture);

  // For the scan: from now on a picture or mask whose decoding would take more is an error. What it takes is
  // known from its header, before any of it is allocated.
  void bound_memory(Bytes most) { memory_bound_ = most; }

 protected:
  std::optional<Bytes> memory_bound_;
};

// Loads the plug-in from where backends are looked for: the folders of HEADROOM_BACKEND_PATH, the
// executable's own, ../lib/headroom beside it. The error says what is missing and what to install.
Result<std::unique_ptr<MediaEngine>> load_media_engine();

// What the plug-in exports.
inline constexpr const char* kMediaEngineSymbol = "headroom_media_engine_v1";
using MediaEngineFunction = MediaEngine* (*)();

}  // namespace headroom::media
