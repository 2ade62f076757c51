#include "media/image_memory.h"

#include <algorithm>

namespace headroom::media {
namespace {

constexpr std::int64_t kFrame = 3;  // 8-bit BGR, bytes a pixel

// Bytes a pixel of the steps from what the codec gives to 8 bits and three channels.
std::int64_t conversion(const ImageHeader& header) {
  const std::int64_t channels = header.channels;
  if (header.bits <= 8) return header.turned ? kFrame : 0;
  if (header.bits <= 16 && !header.is_float) {
    if (channels == 4) return 16;           // the pixels and their copy, which loses its alpha
    return channels == 3 ? 6 + kFrame : 6;  // the pixels; them scaled, or scaled twice and in colour
  }
  const std::int64_t sample = header.bits > 32 ? 8 : 4;
  // The pixels as they are, as floats, as floats that are sorted for their percentiles, and scaled.
  const std::int64_t colors = std::min<std::int64_t>(channels, 3);
  return std::max(channels == 4 ? 8 * sample : 0, colors * (sample + 9));
}

}  // namespace

Bytes decoding_memory(const ImageHeader& header, Bytes file) {
  const std::int64_t pixels = std::int64_t{header.width} * header.height;
  return file + Bytes{pixels * (kFrame + conversion(header)) + header.decoder_bytes};
}

}  // namespace headroom::media
