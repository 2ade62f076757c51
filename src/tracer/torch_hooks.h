// PyTorch's modules in a Python program that knows nothing of Headroom: each call of a torch.nn.Module
// becomes a layer (torch_layers.h), and so do Tensor.backward and Optimizer.step.
//
// How: Python opens torch's extension module (torch/_C…so) early in `import torch`, through dlopen, with the
// interpreter's lock. From then until the classes of interest are there, builtins.__build_class__ has a
// stand-in that sees each class right after it was made. In nn.Module a stand-in takes the place of __call__,
// goes into the module's layer, calls what was there, and leaves the layer, by whatever way the call ended.
// A forward hook would do the same, but makes PyTorch take its slow way through every call (4 to 19 times the
// time of small models on a GPU), and is not called when forward raises.
//
// The stand-ins stay until the interpreter ends: they are ordinary objects of it, and the code behind them is
// never unloaded.
#pragma once

namespace headroom::tracer {

// After a dlopen of `file`, whose caller returned to `caller`.
void look_for_torch(const char* file, const void* caller);

}  // namespace headroom::tracer
