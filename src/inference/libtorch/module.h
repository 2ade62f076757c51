// Loads a TorchScript file onto a device, and freezes and optimizes it as the settings require.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "inference/libtorch/checks.h"
#include "types/tensor.h"

namespace headroom::libtorch {

ElementType element_type_of(c10::ScalarType type);
// Throws plugin::Failure for a type that LibTorch does not support.
c10::ScalarType scalar_type_of(ElementType type);

struct LoadedModule {
  torch::jit::Module module;
  ModelDescription signature;  // without outputs, which the file does not record
  bool is_guess = false;       // the file does not record the input's shape
  bool is_half = false;        // its records say that it computes in 16 bits
};

// With `best_effort`, a module that cannot be frozen or optimized runs without that step, and a line on
// standard error reports it. Otherwise that is a Failure. Throws plugin::Failure, also if forward() takes
// anything other than one tensor and the file does not record its inputs.
LoadedModule load_module(const std::string& path, c10::Device device, GraphOptimization optimization,
                         bool best_effort);

}  // namespace headroom::libtorch
