// Inputs for a graph of which nothing but its signature is known (audio, recurrent state, dynamic shapes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/tensor.h"

namespace headroom::inference {

// An input made from a signature: dynamic dimensions resolved (batch → 1, names like height/width →
// image_size, time/sequence → a short length, otherwise 1), filled with deterministic values in a plausible
// range (floats in [0,1), integers small, a sampling-rate scalar 16000). Shapes that models are known to want
// (silero: input [1,512], state [2,1,128], sr scalar) are found by their names.
struct SyntheticInput {
  std::vector<std::int64_t> dims;
  ElementType type = ElementType::float32;
  std::vector<std::byte> data;
};
Result<std::vector<SyntheticInput>> make_synthetic_inputs(const ModelDescription& model, int image_size,
                                                          std::uint32_t seed);

}  // namespace headroom::inference
