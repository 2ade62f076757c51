// Converts frames with more than 8 bits per channel (radiometric thermal images, 16-bit cameras) to 8 bits,
// for models that were trained on ordinary pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headroom::media {

// Scales linearly so that the 1st percentile of all values becomes 0 and the 99th becomes 255. Clips values
// outside. Reason: a radiometric frame uses only a few hundred of its 65,536 levels, and one hot pixel must
// not make the rest black. If both percentiles are equal, the minimum becomes 0 and the maximum 255; a
// constant frame becomes 0. `scaled` has the length of `values`. The percentile p is the value at index
// floor(p × (n − 1)) of the sorted values.
void scale_to_8_bit(std::span<const std::uint16_t> values, std::uint8_t* scaled);
// NaN is ignored for the percentiles and becomes 0; infinities are clipped.
void scale_to_8_bit(std::span<const float> values, std::uint8_t* scaled);

}  // namespace headroom::media
