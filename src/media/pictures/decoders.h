// One decoder per format. Each gets a whole file that inspect_image has accepted, and its header. An error
// has only `what`, a phrase such as "damaged JPEG: bad Huffman code". A library's damage reports count as
// errors if pixels are made up after them. The pixels are those of OpenCV 4.6's imread, which most models are
// trained with.
#pragma once

#include "media/pictures/frame_target.h"

namespace headroom::media {

using EncodedBytes = std::span<const std::uint8_t>;

// 8 bits.
Status decode_jpeg(EncodedBytes file, const FrameTarget& frame);
Status decode_png(EncodedBytes file, const FrameTarget& frame);
Status decode_webp(EncodedBytes file, const FrameTarget& frame);
Status decode_bmp(EncodedBytes file, const FrameTarget& frame);
// Every kind of TIFF that libtiff converts to 8-bit colours.
Status decode_tiff(EncodedBytes file, const FrameTarget& frame);

// More than 8 bits.
Result<DeepPicture> decode_deep_png(EncodedBytes file, const ImageHeader& header);
Result<DeepPicture> decode_deep_tiff(EncodedBytes file, const ImageHeader& header);

// The palette indices of a PNG's pixels, or the values of a grey one of at most 8 bits as stored.
Result<std::vector<std::uint8_t>> decode_png_indices(EncodedBytes file, const ImageHeader& header);

// A JPEG file of packed BGR rows. `quality` is 1 to 100.
Result<std::string> encode_jpeg(const std::uint8_t* bgr, PictureSize size, int quality);
// A PNG file with the palette of DAVIS and PASCAL VOC, of 1 or 8 bits. `indices` has one byte a pixel.
Result<std::string> encode_indexed_png(const std::uint8_t* indices, PictureSize size, int bits);

}  // namespace headroom::media
