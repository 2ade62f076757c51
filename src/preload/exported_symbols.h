// Finds a function or variable that a loaded library exports, without dlsym. A dlsym call that finds nothing
// stores an error message. The program frees its memory later, and may mistake it for an error of the
// program's calls.
#pragma once

#include <link.h>

#include <cstdint>

namespace headroom::preload {

// The symbol's address; 0 if it is not exported.
std::uint64_t address_of_export(const dl_phdr_info& module, const char* name);
// The same for functions only.
std::uint64_t address_of_function(const dl_phdr_info& module, const char* name);
// Whether the address lies in a loaded segment of the library.
bool contains_address(const dl_phdr_info& module, std::uint64_t address);
// The library's DT_SONAME; null if it has none.
const char* soname_of(const dl_phdr_info& module);

}  // namespace headroom::preload
