// What a model's process is told and answers. Each request has one answer:
//   {"do": "load", "path", "backend", "plugin", "settings": {…}}  {"description": {inputs[], outputs[],
//   metadata{}}, "outputs_known"}
//   {"do": "run", "inputs": [{type, dims, at, bytes}]}             {"outputs": [{type, dims, at, bytes}],
//   "bytes"}, and once "description"
//   {"do": "trim"}                                                 {}
// `inputs` only where they have changed; `at` and `bytes` are of the shared memory of inputs or outputs.
// An answer of {"error", "why"} says what failed; "out_of_memory" that an allocation was refused.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "model/runtime_settings.h"
#include "model/tensor.h"

namespace headroom::inference {

inline constexpr int kChannelFd = 3;
inline constexpr int kInputsFd = 4;
inline constexpr int kOutputsFd = 5;

Json to_json(const RuntimeSettings& settings);
RuntimeSettings settings_from_json(const Json& object);

Json to_json(const ModelDescription& description);
ModelDescription description_from_json(const Json& object);

// A tensor in shared memory.
struct PlacedTensor {
  ElementType type = ElementType::unknown;
  std::vector<std::int64_t> dims;
  std::size_t at = 0, bytes = 0;  // 0 bytes: no plain numbers
};
Json to_json(const PlacedTensor& tensor);
// An error if it does not lie inside of `size` bytes, or has other bytes than its dimensions need.
Result<PlacedTensor> placed_tensor_from_json(const Json& object, std::size_t size);

}  // namespace headroom::inference
