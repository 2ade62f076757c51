// Makes inputs for a model of which only the signature is known (audio, recurrent state, dynamic shapes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "types/tensor.h"

namespace headroom::inference {

// An input made from a signature.
//
// Fixed dimensions are kept. A dynamic dimension gets its size from its name, else from its position in the
// shape:
//   - batch → 1; channels → 3; cached past → 0; time, sequence and tokens → 16; anything else → 1
//   - height and width → image_size, rounded up to a multiple of 32 (the stride of most vision networks)
//
// Values are plausible, and the same for the same seed:
//   - floats in [0,1); recurrent states and caches 0 (their start value)
//   - integers 0…9 (token ids that every vocabulary has); bytes (uint8) 0…255
//   - integer masks, booleans and scale factors 1; token types 0; positions ascending
//   - lengths 16, as the time dimension; image sizes: image_size; sampling rates: 16000 Hz
//
// Models that accept only one shape are recognised by their input names (silero: input [1,512], state
// [2,1,128], sr scalar).
struct SyntheticInput {
  std::vector<std::int64_t> dims;
  ElementType type = ElementType::float32;
  std::vector<std::byte> data;
};

// Fails (ErrorKind::failed) for an input of strings, an input that is not a tensor, and an input above 2 GiB.
Result<std::vector<SyntheticInput>> make_synthetic_inputs(const ModelDescription& model, int image_size,
                                                          std::uint32_t seed);

}  // namespace headroom::inference
