// The kinds of memory that a GPU's driver gives out. The numbers are those of recordings.
#pragma once

#include <cstdint>

namespace headroom {

enum class DeviceMemoryKind : std::uint8_t {
  device = 1,           // cuMemAlloc, cuMemAllocPitch
  array = 2,            // arrays and mipmapped arrays
  managed = 3,          // cuMemAllocManaged
  physical = 4,         // cuMemCreate: memory by handle, wherever it is mapped
  pool = 5,             // in use from a pool: cuMemAllocAsync, cuMemAllocFromPoolAsync
  graph = 6,            // memory nodes of graphs
  pinned_host = 7,      // the machine's memory, pinned: cuMemHostAlloc
  imported = 8,         // another process' (IPC, shared handles) or another API's: charged where it was made
  reservation = 9,      // virtual addresses: cuMemAddressReserve
  mapping = 10,         // physical memory at virtual addresses: cuMemMap
  pool_reserved = 11,   // what the driver keeps for pools, in use or not: a figure, no allocation
  overhead = 12,        // modules, found by difference: a figure, no allocation
  graph_reserved = 13,  // what the driver keeps for graphs: a figure, no allocation
  context = 14,         // contexts when they were made, by difference: a figure, no allocation
  driver_growth = 15,   // what the driver takes for itself later, by difference: a figure, no allocation
  registered_host =
      16,  // what the program had already and has pinned (cuMemHostRegister): nothing new anywhere
};
inline constexpr unsigned kDeviceMemoryKinds = 17;  // with the unused 0

// Whether it takes up a device's own memory, and counts against a limit. On an integrated GPU the device's
// memory is the machine's, so what is pinned there counts, too.
constexpr bool takes_device_memory(DeviceMemoryKind kind, bool is_integrated) {
  return (kind >= DeviceMemoryKind::device && kind <= DeviceMemoryKind::graph) ||
         (is_integrated && kind == DeviceMemoryKind::pinned_host);
}

// In what a GPU gives memory where its driver did not tell: an H100 and an H200.
inline constexpr std::uint64_t kUsualGranule = std::uint64_t{2} << 20;

// What a GPU of its own loses beyond what was asked for: above half a granule its driver gives whole ones, so
// that of 2 MiB 1 MiB and a byte take two (measured on an H200, bench/results/gpu_ledger.md). Smaller ones
// share granules. Memory by handle is asked for in granules, and pools are figures of the driver's.
constexpr std::uint64_t rounding_of(DeviceMemoryKind kind, std::uint64_t bytes,
                                    std::uint64_t granule = kUsualGranule) {
  if ((kind != DeviceMemoryKind::device && kind != DeviceMemoryKind::array) || bytes <= granule / 2) return 0;
  return (granule - bytes % granule) % granule;
}

}  // namespace headroom
