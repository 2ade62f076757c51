// glibc 2.35 finds the module of an address without a lock. So it may be asked where the loader's lock may
// not be waited for: in a child after fork, whose parent's other threads may have held the lock.
#pragma once

#include <cstdint>

namespace headroom::tracer {

// As the C library has it (struct dl_find_object).
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  void* link_map;
  void* eh_frame_header;
  unsigned long long reserved[7];
};

// Whether this C library can tell. The first call looks that up, which takes the loader's lock.
bool has_find_object();
// False when the address is in no module, or the C library cannot tell.
bool find_object(std::uint64_t address, FoundObject& found);

}  // namespace headroom::tracer
