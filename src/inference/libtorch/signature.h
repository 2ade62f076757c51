// What a TorchScript module takes. Its file says that there is a tensor and neither of what type nor of what
// shape, unless it was saved with them: by torch.jit.trace of PyTorch 2 (traced inputs), or in a config.txt
// as the exporters of YOLOv5 and Ultralytics write it. Else the first operation that the input meets tells: a
// convolution knows its channels, an embedding takes whole numbers.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <utility>
#include <vector>

#include "model/tensor.h"

namespace headroom::libtorch {

ElementType element_type_of(c10::ScalarType type);
// Throws plugin::Failure for a type that LibTorch does not have.
c10::ScalarType scalar_type_of(ElementType type);

struct Signature {
  std::vector<TensorSpec> inputs;
  std::vector<std::pair<std::string, std::string>> metadata;
  bool is_guess = false;  // the input's shape was not recorded
};

// `inlined` is the same module with all its calls inlined and its weights as constants (frozen); `config` the
// content of config.txt, or empty. Throws plugin::Failure for a forward() that takes other than one tensor.
Signature read_signature(const torch::jit::Module& module, const torch::jit::Module& inlined,
                         const std::string& config);

}  // namespace headroom::libtorch
