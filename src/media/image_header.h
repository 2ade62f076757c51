// What an image file says of itself, and whether it is whole, without decoding it.
//
// Why by hand: libjpeg, and so OpenCV, fills the missing part of a truncated JPEG with grey and reports
// success, and an image's header can promise terabytes of pixels. Walking the file's structure costs one pass
// over the bytes (JPEG: about 1 GB/s; the other formats only hop from chunk to chunk), finds both before a
// pixel is decoded, and gives the size, so that a frame can be decoded straight to its place.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace headroom::media {

enum class ImageFormat { jpeg, png, bmp, webp, tiff };

// Larger pictures are refused: 2^27 pixels (a 16384 × 8192 panorama) decode to 384 MiB.
inline constexpr std::int64_t kMaximumPixels = std::int64_t{1} << 27;

struct ImageHeader {
  ImageFormat format = ImageFormat::jpeg;
  int width = 0, height = 0;  // as stored, before an EXIF orientation is applied
  int bits = 8;               // of one channel
  int channels = 3;           // as stored; a palette counts as the colours that it holds
  bool is_float = false;
  bool turned = false;             // an EXIF orientation makes the decoder turn the picture in a copy
  std::int64_t decoder_bytes = 0;  // what the format's decoder holds beside the file and the picture
};

// Looks at a whole file in memory. Error (with only `what`, a phrase such as "truncated JPEG: no end
// marker"): another format, a damaged or cut structure, no pixels or more than kMaximumPixels. Bytes after
// the image's end are accepted, as cameras and editors append some.
Result<ImageHeader> inspect_image(std::span<const std::uint8_t> file);

// The palette of a PNG (red, green, blue), empty if it has none. Annotation masks keep their object ids as
// palette indices, which image libraries turn into colours.
std::vector<std::array<std::uint8_t, 3>> png_palette(std::span<const std::uint8_t> file);

}  // namespace headroom::media
