// The Python functions that are replaced while a trace is open: nn.Module.__call__, and the functions that
// are phases of training. The replacements are C stand-ins around the originals (tracer/python_function.h);
// module hooks would force PyTorch onto its slow path. All functions require the GIL.
#pragma once

namespace headroom::memory_tracer {

enum class Hook : int { module_call = 0, backward = 1, optimizer_step = 2 };

// Returns the reason if Python is not supported, otherwise null. Call it before the others.
const char* prepare_python();
// Returns false if the attribute is missing or already replaced.
bool hook_attribute(void* owner, const char* name, Hook hook);
void unhook_attribute(void* owner, const char* name);

}  // namespace headroom::memory_tracer
