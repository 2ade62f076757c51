// Traces PyTorch modules in unmodified Python programs: each call of a torch.nn.Module becomes a layer,
// and so do Tensor.backward and Optimizer.step.
//
// How it works: early in `import torch`, Python loads torch's extension module (torch/_C…so) through dlopen,
// with the GIL held. From then on, until the classes of interest exist, a stand-in replaces
// builtins.__build_class__ and inspects each new class. In nn.Module, a stand-in replaces __call__: it enters
// the module's layer, calls the original, and leaves the layer, however the call ends. A forward hook would
// do the same, but it forces PyTorch onto its slow path for every call. Small models on a GPU then take 4 to
// 19 times as long. And PyTorch does not call it when forward raises.
//
// The stand-ins stay until the interpreter ends: they are ordinary Python objects, and the code behind them
// is never unloaded.
#pragma once

#include "preload/python_api.h"

namespace headroom::preload {

// Called after a dlopen of `file`; `caller` is the return address of that call.
void look_for_torch(const char* file, const void* caller);

// Assigns each call of a PyTorch module to a layer: scopes that are named after modules.
//
// The outermost called module is the root, and its layer is named after its class. Inner modules have their
// names in the root's nn.Module.named_modules(), element by element: "ResNet/layer1/0/conv1".
// The calling thread enters the module's layer. Returns false if it entered none (nothing is recorded, or
// calls are nested too deep); then leave_module() must not be called.
bool enter_module(python::Object* module);
void leave_module();

// Python has ended.
void forget_layers();

}  // namespace headroom::preload
