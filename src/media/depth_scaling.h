// Frames of more than 8 bits a channel (radiometric thermal images, 16-bit cameras) made 8-bit, so that
// models that were trained on ordinary pictures can look at them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headroom::media {

// Scales linearly so that the 1st percentile of all values becomes 0 and the 99th 255, and clips beyond: a
// radiometric frame uses some hundred of its 65,536 levels, and one hot pixel must not make the rest black. A
// constant frame becomes 0. `scaled` is as long as `values`. Percentiles are of nearest rank: the value at
// index floor(p × (n − 1)) of the sorted values.
void scale_to_8_bit(std::span<const std::uint16_t> values, std::uint8_t* scaled);
// NaN counts for nothing and becomes 0; infinities are clipped.
void scale_to_8_bit(std::span<const float> values, std::uint8_t* scaled);

}  // namespace headroom::media
