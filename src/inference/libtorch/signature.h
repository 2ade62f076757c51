// Finds the type and shape of a TorchScript module's input. The file itself records only that there is a
// tensor. Sources, in this order:
//
//   1. The inputs that torch.jit.trace of PyTorch 2 saves (traced inputs).
//   2. A config.txt in the file, as the exporters of YOLOv5 and Ultralytics write it.
//   3. The first operation on the input: a convolution has a number of channels, an embedding takes
//      integers.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <utility>
#include <vector>

#include "types/tensor.h"

namespace headroom::libtorch {

ElementType element_type_of(c10::ScalarType type);
// Throws plugin::Failure for a type that LibTorch does not support.
c10::ScalarType scalar_type_of(ElementType type);

struct Signature {
  std::vector<TensorSpec> inputs;
  std::vector<std::pair<std::string, std::string>> metadata;
  bool is_guess = false;  // the file does not record the input's shape
};

// `inlined` is the same module, frozen: its calls are inlined and its weights are constants. `config` is
// the content of config.txt, or empty. Throws plugin::Failure if forward() takes anything other than one
// tensor.
Signature read_signature(const torch::jit::Module& module, const torch::jit::Module& inlined,
                         const std::string& config);

}  // namespace headroom::libtorch
