// A call of a PyTorch module without the two Python functions between it and the module's own code.
//
// nn.Module.__call__ is a Python function, in PyTorch 2 one that calls a second one, and where a module has
// no hooks all that they do is to call `forward` with the arguments that they were given. A stand-in for
// __call__ that has looked, in C, whether it is so can call `forward` itself. That saves about what a layer
// costs, so that a traced call takes no longer than an untraced one
// (bench/results/gpu_memory_tracer.md). Nothing is assumed about a PyTorch that is not known: where its
// functions use other names than those looked at here, they are called.
#pragma once

#include "tracer/python_function.h"

namespace headroom::tracer {

// Looks at how the class torch.nn.Module calls `forward`; before its __call__ is replaced.
void learn_module_call(python::Object* module_class);
// Python has ended.
void forget_module_call();

// What `call`, one of nn.Module.__call__, gives: by the module's `forward` where that is all that would be
// called, or else by call.go_on().
python::Object* call_module(const python::PendingCall& call);

}  // namespace headroom::tracer
