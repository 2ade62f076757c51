// What of Python is replaced while a trace is open: nn.Module.__call__, and the functions that are phases of
// training. By stand-ins in C around the function that was there (tracer/python_function.h): hooks of modules
// would put PyTorch on its slow way. With the interpreter's lock held.
#pragma once

namespace headroom::memory_tracer {

enum class Hook : int { module_call = 0, backward = 1, optimizer_step = 2 };

// The first word why not, or null. Before the others.
const char* prepare_python();
// False where there is no such attribute, or it is replaced already.
bool hook_attribute(void* owner, const char* name, Hook hook);
void unhook_attribute(void* owner, const char* name);

}  // namespace headroom::memory_tracer
