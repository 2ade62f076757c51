// Reads and writes pictures. The engine is a plug-in (libheadroom_media_pictures.so): image libraries are
// large, so only the scanning, decoding and annotating processes load it. The conductor and measured workers
// never do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "media/video_reader.h"
#include "types/detection.h"

namespace headroom::media {

// The pixels of a mask file as they are stored: palette indices or grey values, rows packed.
struct LabelPicture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> values{};
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
  // The pixels of an annotation mask: a PNG with a palette, or grey of 1 to 8 bits (1-bit grey gives 0 and
  // 1), with or without alpha. A colour picture is an error unless its three channels are equal.
  virtual Result<LabelPicture> read_labels(const std::string& path) = 0;
  // Writes a PNG with the palette of DAVIS and PASCAL VOC: of 1 bit if no value is above 1, else of 8 bits.
  virtual Status write_labels(const LabelPicture& labels, const std::string& path) = 0;
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

// Loads the plug-in that find_plugin() (base/files.h) finds. The error names the missing file and the
// packages to install.
Result<std::unique_ptr<MediaEngine>> load_media_engine();

// The function that the plug-in exports.
inline constexpr const char* kMediaEngineSymbol = "headroom_media_engine_v2";
using MediaEngineFunction = MediaEngine* (*)();

}  // namespace headroom::media
