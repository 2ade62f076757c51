// The shapes for which an engine is built where the model leaves them open. It knows no TensorRT.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace headroom::tensorrt {

// `dims` with every -1 settled: the first is a batch of one; two open sides of a picture (three or four
// dimensions) are `image_size`. An error names an input that this does not settle (the length of a text,
// say).
Result<std::vector<std::int64_t>> settle_shape(const std::string& name, const std::vector<std::int64_t>& dims,
                                               int image_size);

}  // namespace headroom::tensorrt
