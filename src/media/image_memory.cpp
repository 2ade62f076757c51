#include "media/image_memory.h"

#include <algorithm>

namespace headroom::media {
namespace {

constexpr std::int64_t kFrame = 3;  // bytes per pixel of 8-bit BGR

// Bytes per pixel for the conversion from the codec's output to 8 bits and three channels.
std::int64_t conversion(const ImageHeader& header) {
  const std::int64_t channels = header.channels;
  if (header.bits <= 8) return header.turned ? kFrame : 0;
  if (header.bits <= 16 && !header.is_float) {
    if (channels == 4) return 16;  // the pixels, and a copy without alpha
    return channels == 3 ? 6 + kFrame
                         : 6;  // the pixels; their scaled copy, or a scaled copy and its colour version
  }
  const std::int64_t sample = header.bits > 32 ? 8 : 4;
  // The pixels, the pixels as floats, a copy of the floats for the percentiles, and the scaled pixels.
  const std::int64_t colors = std::min<std::int64_t>(channels, 3);
  return std::max(channels == 4 ? 8 * sample : 0, colors * (sample + 9));
}

}  // namespace

Bytes decoding_memory(const ImageHeader& header, Bytes file) {
  const std::int64_t pixels = std::int64_t{header.width} * header.height;
  return file + Bytes{pixels * (kFrame + conversion(header)) + header.decoder_bytes};
}

}  // namespace headroom::media
