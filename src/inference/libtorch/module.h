// A TorchScript file as it is run: loaded onto a device, frozen and optimized as the settings say.
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

// `all_that_works`: a module that cannot be frozen or optimized runs as it is, and standard error says so;
// else that is a Failure. Throws plugin::Failure.
LoadedModule load_module(const std::string& path, c10::Device device, GraphWork work, bool all_that_works);

}  // namespace headroom::libtorch
