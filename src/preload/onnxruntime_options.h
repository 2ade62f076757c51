// Remembers the session options in which the program enabled the runtime's profiling. A session has only one
// profile, and that one then belongs to the program.
#pragma once

namespace headroom::preload {

// Must be reset before the options are released, because their address may be reused.
void set_profiled_by_program(const void* options, bool profiled);
bool is_profiled_by_program(const void* options);

}  // namespace headroom::preload
