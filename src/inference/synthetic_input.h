// Inputs for a graph of which nothing but its signature is known (audio, recurrent state, dynamic shapes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/tensor.h"

namespace headroom::inference {

// An input made from a signature. Stated dimensions are kept; a dynamic one is resolved by its name, else by
// its place in the shape: batch → 1, height and width → image_size rounded up to a multiple of 32 (the stride
// of most vision networks), channels → 3, time, sequence and tokens → 16, cached past → 0, anything else → 1.
// Values are deterministic for a seed and plausible: floats in [0,1), recurrent states and caches 0 (how they
// start), integers 0…9 (token ids that every vocabulary has), masks 1, positions ascending, lengths the
// sequence's length, image sizes image_size, a sampling rate 16000. Shapes that models are known to want
// (silero: input [1,512], state [2,1,128], sr scalar) are found by their names.
struct SyntheticInput {
  std::vector<std::int64_t> dims;
  ElementType type = ElementType::float32;
  std::vector<std::byte> data;
};

// Errors (ErrorKind::failed): an input of strings or of no tensor type, or one that would take more than 2
// GiB.
Result<std::vector<SyntheticInput>> make_synthetic_inputs(const ModelDescription& model, int image_size,
                                                          std::uint32_t seed);

}  // namespace headroom::inference
