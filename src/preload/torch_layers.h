// Assigns each call of a PyTorch module to a layer: scopes that are named after modules.
//
// The outermost called module is the root, and its layer is named after its class. Inner modules have their
// names in the root's nn.Module.named_modules(), element by element: "ResNet/layer1/0/conv1".
#pragma once

#include "preload/python_api.h"

namespace headroom::preload {

// The calling thread enters the module's layer. Returns false if it entered none (nothing is recorded, or
// calls are nested too deep); then leave_module() must not be called.
bool enter_module(python::Object* module);
void leave_module();

// Python has ended.
void forget_layers();

}  // namespace headroom::preload
