// Decodes a picture in memory, whatever its format.
#pragma once

#include "media/pictures/decoders.h"

namespace headroom::media {

// `bgr` has the memory of shown_size(header). Errors have only `what`.
Status decode_picture(EncodedBytes file, const ImageHeader& header, std::uint8_t* bgr);

// The object ids in an annotation mask: its palette indices, or the values of its first channel (grey, or
// blue).
Result<std::vector<int>> decode_mask_ids(EncodedBytes file, const ImageHeader& header);

// The pixels of a mask (MediaEngine::read_labels).
Result<LabelPicture> decode_labels(EncodedBytes file, ImageHeader header);

}  // namespace headroom::media
