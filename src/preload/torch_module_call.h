// Calls a PyTorch module directly, without the two Python functions between the call and the module's own
// code.
//
// nn.Module.__call__ is a Python function; in PyTorch 2 it calls a second one. If a module has no hooks, both
// functions only call `forward` with the same arguments. The stand-in for __call__ checks for hooks in C and
// then calls `forward` itself. That saves about as much time as a layer costs, so a traced call takes no
// longer than an untraced one (benchmarks/results/gpu_memory_tracer.md). Unknown PyTorch versions are not
// assumed to behave the same: if their functions use other names than those checked here, the original is
// called.
#pragma once

#include "preload/python_api.h"

namespace headroom::preload {

// Inspects how the class torch.nn.Module calls `forward`. Call it before __call__ is replaced.
void learn_module_call(python::Object* module_class);
// Python has ended.
void forget_module_call();

// Performs a call of nn.Module.__call__: through the module's `forward` if nothing else would be called,
// otherwise through the original.
python::Object* call_module(const python::PendingCall& call);

}  // namespace headroom::preload
