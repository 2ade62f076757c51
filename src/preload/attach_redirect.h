// Calls reach a preloaded library because the loader finds its functions first. A library that comes into a
// running program is too late for that: the loader has resolved the calls. So attaching redirects them: each
// module has a table of the functions that it calls (the global offset table, filled in by the relocations of
// its file), and the tracer writes the address of its hook there.
//
// What is not in such a table cannot be redirected: a call inside the module that defines the function, and
// an address that the program has stored in its own data, such as the result of dlsym.
#pragma once

#include "preload/modules.h"

namespace headroom::preload {

// Allows redirect_calls() until the calls are restored.
void start_redirecting();
// Redirects the calls of all loaded modules. Called again, those of new ones.
void redirect_calls(LoaderState loader);
// Writes the old addresses back, into each slot that still has the tracer's.
void restore_calls();
// The same in a forked child, which must not wait for the loader's lock.
void restore_calls_in_child();

}  // namespace headroom::preload
