// Where a function or variable is that a loaded library exports, without dlsym: one that finds nothing leaves
// an error message behind, in memory that the program frees some day, and which it may take for an error of
// its own.
#pragma once

#include <link.h>

#include <cstdint>

namespace headroom::tracer {

// 0 where there is none.
std::uint64_t address_of_export(const dl_phdr_info& module, const char* name);
// Not of a variable of that name.
std::uint64_t address_of_function(const dl_phdr_info& module, const char* name);
// By which others link with it; null: it has none.
const char* soname_of(const dl_phdr_info& module);

}  // namespace headroom::tracer
