// Finds the module of an address without a lock; needs glibc 2.35. So it also works in a child after fork.
// There no code may wait for the loader's lock, because another thread of the parent may have held it.
#pragma once

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

}  // namespace headroom::preload
