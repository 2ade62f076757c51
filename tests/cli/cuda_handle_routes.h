// Routes that keep physical memory without a handle or address.
#pragma once

#include <unistd.h>

#include "cli/cuda_routes.h"

namespace cuda_program {

inline Result create_physical(std::uint64_t bytes, int handle_types, Handle& handle) {
  AllocationProperties properties{};
  properties.type = 1;
  properties.handle_types = handle_types;
  properties.location = {kLocationDevice, 0};
  return cuMemCreate(&handle, bytes, &properties, 0);
}
inline void release_handle(Handle handle) { check(cuMemRelease(handle), "release"); }

// Reports how much this process holds, and waits until its input is closed.
inline int report_and_wait(std::uint64_t held, int input = 0, int output = 1) {
  if (::dprintf(output, "%lu\n", held) < 0) return 1;
  char byte = 0;
  return ::read(input, &byte, 1) >= 0 ? 0 : 1;
}

// Exports memory as a descriptor, releases its handle, and imports it again. Prints how much it allocated,
// then waits: all of it stays charged until this process ends, mapped or not.
inline int hold_by_descriptor(std::uint64_t limit, std::uint64_t step) {
  constexpr int kDescriptor = 1;
  start_context();
  std::uint64_t held = 0;
  for (Handle handle = 0; create_physical(step, kDescriptor, handle) == kSuccess; held += step) {
    int descriptor = -1;
    if (cuMemExportToShareableHandle(&descriptor, handle, kDescriptor, 0) != kSuccess) return 4;
    release_handle(handle);
    check(cuMemImportFromShareableHandle(
              &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)), kDescriptor),
          "import");
    release_handle(handle);
    if (held > limit) break;
  }
  return report_and_wait(held);
}

}  // namespace cuda_program
