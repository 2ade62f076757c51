#include <webp/decode.h>

#include "media/pictures/decoders.h"

namespace headroom::media {

Status decode_webp(EncodedBytes file, const FrameTarget& frame) {
  WebPBitstreamFeatures found{};
  if (WebPGetFeatures(file.data(), file.size(), &found) != VP8_STATUS_OK)
    return input_error("damaged WebP: its header is invalid");
  if (found.has_animation != 0)
    return input_error("the WebP is an animation; only still pictures are decoded");
  if (found.width != frame.width() || found.height != frame.height())
    return input_error("damaged WebP: it has more than one size");
  const std::size_t stride = static_cast<std::size_t>(frame.width()) * 3;
  if (WebPDecodeBGRInto(file.data(), file.size(), frame.row(0),
                        stride * static_cast<std::size_t>(frame.height()),
                        static_cast<int>(stride)) == nullptr)
    return input_error("damaged WebP: its pixels cannot be decoded");
  return {};
}

}  // namespace headroom::media
