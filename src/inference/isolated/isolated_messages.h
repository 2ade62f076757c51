// The messages between Headroom and a model process. Each request has one answer:
//
//   {"do": "load", "path", "backend", "plugin", "settings": {…}}
//     answer: {"description": {inputs[], outputs[], metadata{}}, "outputs_known"}
//   {"do": "run", "inputs": [{type, dims, at, bytes}]}
//     answer: {"outputs": [{type, dims, at, bytes}], "bytes"}
//   {"do": "trim"}
//     answer: {}
//
// - A request contains "inputs" only if they have changed.
// - "at" (offset in bytes) and "bytes" give a tensor's place in the shared memory of the inputs or outputs.
// - "bytes" of a run's answer is the size of the outputs' shared memory.
// - If "outputs_known" was false, the answer to the first run repeats "description" and "outputs_known".
// - A failed request is answered by {"why", "out_of_memory"}. "out_of_memory" is true if an allocation was
//   refused.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "types/runtime_settings.h"
#include "types/tensor.h"

namespace headroom::inference {

// The descriptors that a model process inherits: its socket, and the shared memory of inputs and outputs.
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
  std::size_t at = 0, bytes = 0;  // 0 bytes: not a tensor of plain numbers
};
Json to_json(const PlacedTensor& tensor);
// Fails if the tensor does not lie inside `size` bytes, or if `bytes` does not match its dimensions.
Result<PlacedTensor> placed_tensor_from_json(const Json& object, std::size_t size);

}  // namespace headroom::inference
