// Routes that keep physical memory without a handle or address: by a sparse array, and by a file descriptor.
#pragma once

#include <unistd.h>

#include "cli/cuda_routes.h"

namespace cuda_program {

inline Result create_physical(std::uint64_t bytes, int handle_types, bool is_for_arrays, Handle& handle) {
  AllocationProperties properties{};
  properties.type = 1;
  properties.handle_types = handle_types;
  properties.location = {kLocationDevice, 0};
  properties.flags[2] = is_for_arrays ? 1 : 0;  // CU_MEM_CREATE_USAGE_TILE_POOL
  return cuMemCreate(&handle, bytes, &properties, 0);
}
inline void release_handle(Handle handle) { check(cuMemRelease(handle), "release"); }

// A sparse array: each step of memory is mapped to one of its tiles, and has no other reference.
struct SparseArray : Route {
  static constexpr unsigned kTile = 128, kTiles = 512;  // elements of a tile's side, of 4 bytes each: 64 KiB
  Opaque array = nullptr;
  unsigned count = 0;
  bool is_unmapped = false;
  Result map(int operation, unsigned tile, Handle handle) {
    ArrayMapping one{};
    one.array = array;
    one.part.tiles = {0, 0, tile * kTile, 0, 0, kTile, kTile, 1};
    one.operation = operation;
    one.handle = handle;
    one.devices = 1;
    return cuMemMapArrayAsync(&one, 1, nullptr);
  }
  Result make() {
    const Array3dDescriptor shape{kTile * kTiles, kTile, 0, 0x20, 1, kArraySparse};
    return cuArray3DCreate_v2(&array, &shape);
  }
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    cost = step;
    if (array == nullptr) check(make(), "sparse array");
    Handle handle = 0;
    const Result result = create_physical(step, 0, true, handle);
    if (result != kSuccess) return result;
    check(map(kMapPart, count++, handle), "map array");
    release_handle(handle);
    return result;
  }
  // The first call unmaps each tile; the second leaves that to the destruction of the array.
  void free_all() override {
    for (; !is_unmapped && count > 0; --count) check(map(kUnmapPart, count - 1, 0), "unmap array");
    synchronize();
    is_unmapped = true;
    count = 0;
    if (array != nullptr) check(cuArrayDestroy(array), "destroy");
    array = nullptr;
  }
  // Returns whether the driver supports sparse arrays.
  bool is_supported(std::uint64_t step) {
    Handle handle = 0;
    if (make() != kSuccess) return false;
    const bool is_made = create_physical(step, 0, true, handle) == kSuccess;
    const bool is_supported = is_made && map(kMapPart, 0, handle) == kSuccess;
    if (is_made) release_handle(handle);
    free_all();
    is_unmapped = false;
    return is_supported;
  }
};

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
  for (Handle handle = 0; create_physical(step, kDescriptor, false, handle) == kSuccess; held += step) {
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
