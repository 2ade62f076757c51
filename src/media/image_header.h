// Reads the header of an image file and checks that the file is complete, without decoding it.
//
// Decoders don't do this: libjpeg fills the missing part of a truncated JPEG with grey and reports success,
// and a header can announce terabytes of pixels. Walking the file's structure needs one pass over the bytes
// (JPEG: about 1 GB/s; other formats only jump from chunk to chunk). It finds both problems before any pixel
// is decoded. It also gives the size, so that a frame can be decoded directly into its final memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/units.h"

namespace headroom::media {

enum class ImageFormat { jpeg, png, bmp, webp, tiff };

// Larger pictures are rejected: 2^27 pixels (a 16384 × 8192 panorama) decode to 384 MiB.
inline constexpr std::int64_t kMaximumPixels = std::int64_t{1} << 27;

struct ImageHeader {
  ImageFormat format = ImageFormat::jpeg;
  int width = 0, height = 0;  // as stored, before an EXIF orientation is applied
  int bits = 8;               // bits per channel; 8 if the decoder's library converts them to 8
  int channels = 3;           // as stored; for a palette, the channels of its colours
  bool is_float = false;
  bool has_palette = false;  // PNG only
  // 1 to 8, from EXIF (JPEG, PNG) or TIFF's tag: whether the shown picture is the stored one turned (3: by
  // 180 degrees, 6: clockwise, 8: counterclockwise) or mirrored (2, 4, 5, 7). 5 to 8 swap width and height.
  int orientation = 1;
  std::int64_t decoder_bytes = 0;  // memory of the decoder, in addition to the file and the picture
};

// Inspects a whole file in memory. Fails for another format, a damaged or truncated structure, no pixels,
// or more than kMaximumPixels. The error has only `what`, a phrase such as "truncated JPEG: no end marker".
// Bytes after the image's end are accepted, because some cameras and editors append data.
Result<ImageHeader> inspect_image(std::span<const std::uint8_t> file);

// Estimates the engine's peak memory for this picture from its header: its file, decoder and conversion
// buffers, and the decoded frame. The caller can then skip and report a picture that does not fit; decoding
// it would end the process. Measured with all kinds of pictures at 24 million pixels, the estimate is within
// 1 % of the truth; for lossless WebP it is 12 % too high (docs/sources.md, MemoryOfDecoding tests).
Bytes decoding_memory(const ImageHeader& header, Bytes file);

// Converts frames with more than 8 bits per channel (radiometric thermal images, 16-bit cameras) to 8 bits,
// for models that were trained on ordinary pictures.
//
// Scales linearly so that the 1st percentile of all values becomes 0 and the 99th becomes 255. Clips values
// outside. Reason: a radiometric frame uses only a few hundred of its 65,536 levels, and one hot pixel must
// not make the rest black. If both percentiles are equal, the minimum becomes 0 and the maximum 255; a
// constant frame becomes 0. `scaled` has the length of `values`. The percentile p is the value at index
// floor(p × (n − 1)) of the sorted values.
void scale_to_8_bit(std::span<const std::uint16_t> values, std::uint8_t* scaled);
// NaN is ignored for the percentiles and becomes 0; infinities are clipped.
void scale_to_8_bit(std::span<const float> values, std::uint8_t* scaled);

}  // namespace headroom::media
