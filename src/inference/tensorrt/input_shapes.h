// Chooses fixed shapes for a model's dynamic inputs when an engine is built. Does not depend on TensorRT.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace headroom::tensorrt {

// Returns `dims` with every -1 resolved. A dynamic first dimension becomes a batch of 1. Up to two other
// dynamic dimensions of a picture (three or four dimensions) become `image_size`, in pixels. Fails for any
// other dynamic dimension (the length of a text, for example).
Result<std::vector<std::int64_t>> resolve_shape(const std::string& name,
                                                const std::vector<std::int64_t>& dims, int image_size);

}  // namespace headroom::tensorrt
