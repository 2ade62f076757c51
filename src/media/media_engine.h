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
#include "base/units.h"
#include "model/detection.h"
#include "model/source.h"

namespace headroom::media {

// A decoded picture: 8-bit BGR, rows packed.
struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> bgr;
};

struct PictureSize {
  int width = 0, height = 0;
};

// Yields the frames of one video or camera in order.
class VideoReader {
 public:
  virtual ~VideoReader() = default;
  // The next frame, or nothing at the end. A frame that cannot be decoded is an error; the next call goes on.
  virtual Result<bool> next(Picture& picture) = 0;
  virtual PictureSize size() const = 0;
  virtual std::int64_t frame_count() const = 0;  // as the container says; 0 if unknown
};

class MediaEngine {
 public:
  virtual ~MediaEngine() = default;
  virtual std::string version() const = 0;
  // Decodes jpg, jpeg, png, bmp, webp, tiff, tif; 8 and 16 bit, grey and colour, with or without alpha.
  // 16-bit (radiometric) frames are scaled linearly from their 1st..99th percentile to 0..255. Truncated data
  // is an error, not a half-grey picture.
  virtual Result<void> decode_image(const std::string& path, Picture& picture) = 0;
  virtual Result<std::unique_ptr<VideoReader>> open_video(const std::string& path) = 0;
  virtual Result<std::unique_ptr<VideoReader>> open_camera(int index) = 0;
  // Draws findings (boxes with class and score, quads, lines, masks) and writes a JPEG.
  virtual Status write_annotated(const Picture& picture, const FrameFindings& findings,
                                 const std::vector<std::string>& class_names, const std::string& path) = 0;
};

// Loads the plug-in from where backends are looked for. The error says what is missing.
Result<std::unique_ptr<MediaEngine>> load_media_engine();

// What the plug-in exports.
inline constexpr const char* kMediaEngineSymbol = "headroom_media_engine_v1";
using MediaEngineFunction = MediaEngine* (*)();

}  // namespace headroom::media
