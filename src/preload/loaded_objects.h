// Finds the module of an address without a lock; needs glibc 2.35. So it also works in a child after fork.
// There no code may wait for the loader's lock, because another thread of the parent may have held it.
#pragma once

#include <link.h>

#include <cstdint>

namespace headroom::preload {

// Layout of the C library's struct dl_find_object.
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  void* link_map;
  void* eh_frame_header;
  unsigned long long reserved[7];
};

// Whether the C library has the function. The first call resolves it, which takes the loader's lock.
bool has_find_object();
// False if the address is in no module, or the C library does not have the function.
bool find_object(std::uint64_t address, FoundObject& found);

// Finds a function or variable that a loaded library exports, without dlsym. A dlsym call that finds nothing
// stores an error message. The program frees its memory later, and may mistake it for an error of the
// program's calls.
// The symbol's address; 0 if it is not exported.
std::uint64_t address_of_export(const dl_phdr_info& module, const char* name);
// The same for functions only.
std::uint64_t address_of_function(const dl_phdr_info& module, const char* name);
// The first definition of a function, in the order in which the libraries were loaded. Skips this library.
void* first_definition(const char* name);
// Whether the address lies in a loaded segment of the library.
bool contains_address(const dl_phdr_info& module, std::uint64_t address);
// The library's DT_SONAME; null if it has none.
const char* soname_of(const dl_phdr_info& module);

}  // namespace headroom::preload
