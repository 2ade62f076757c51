// Whether a loaded library exports a function, without dlsym: one that finds nothing leaves an error message
// behind, in memory that the program frees some day, and which it may take for an error of its own.
#pragma once

#include <link.h>

namespace headroom::tracer {

bool exports_symbol(const dl_phdr_info& module, const char* name);

}  // namespace headroom::tracer
