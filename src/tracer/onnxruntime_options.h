// Session options in which the program has turned the runtime's profiling on for itself. A session has only
// one profile, and that one is then the program's.
#pragma once

namespace headroom::tracer {

// Before the options go: their address may be other options' later.
void set_profiled_by_program(const void* options, bool profiled);
bool is_profiled_by_program(const void* options);

}  // namespace headroom::tracer
