// Loads a TorchScript file onto a device, and freezes and optimizes it as the settings require.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "inference/libtorch/run_settings.h"
#include "inference/libtorch/signature.h"

namespace headroom::libtorch {

struct LoadedModule {
  torch::jit::Module module;
  Signature signature;
};

// With `best_effort`, a module that cannot be frozen or optimized runs without that step, and a line on
// standard error reports it. Otherwise that is a Failure. Throws plugin::Failure.
LoadedModule load_module(const std::string& path, c10::Device device, GraphOptimization optimization,
                         bool best_effort);

}  // namespace headroom::libtorch
