// Kinds of memory that a GPU driver allocates. The numbers are part of the recording format.
#pragma once

#include <cstdint>

namespace headroom {

enum class DeviceMemoryKind : std::uint8_t {
  device = 1,           // cuMemAlloc, cuMemAllocPitch
  array = 2,            // arrays and mipmapped arrays
  managed = 3,          // cuMemAllocManaged
  physical = 4,         // cuMemCreate: memory identified by a handle, wherever it is mapped
  pool = 5,             // allocated from a pool: cuMemAllocAsync, cuMemAllocFromPoolAsync
  graph = 6,            // memory nodes of CUDA graphs
  pinned_host = 7,      // pinned host memory: cuMemHostAlloc
  imported = 8,         // from another process (IPC, shared handles) or API: charged where it was allocated
  reservation = 9,      // virtual addresses only: cuMemAddressReserve
  mapping = 10,         // physical memory at virtual addresses: cuMemMap
  pool_reserved = 11,   // memory that the driver keeps for pools, used or not: a figure, not an allocation
  overhead = 12,        // modules, measured as a difference: a figure, not an allocation
  graph_reserved = 13,  // memory that the driver keeps for graphs: a figure, not an allocation
  context = 14,         // contexts at creation, measured as a difference: a figure, not an allocation
  // Later growth of the driver's memory, measured as a difference: a figure, not an allocation.
  driver_growth = 15,
  registered_host = 16,  // existing memory that the program pinned (cuMemHostRegister): nothing is allocated
};
inline constexpr unsigned kDeviceMemoryKinds = 17;  // including the unused 0

// Whether this kind uses the device's memory and counts against a limit. On an integrated GPU the device's
// memory is host memory, so pinned memory counts too.
constexpr bool takes_device_memory(DeviceMemoryKind kind, bool is_integrated) {
  return (kind >= DeviceMemoryKind::device && kind <= DeviceMemoryKind::graph) ||
         (is_integrated && kind == DeviceMemoryKind::pinned_host);
}

// The allocation granule of a GPU if its driver did not report it. Valid for H100 and H200.
inline constexpr std::uint64_t kUsualGranule = std::uint64_t{2} << 20;

// The bytes that a discrete GPU adds by rounding up. Above half a granule the driver allocates whole
// granules: 1 MiB and one byte take 2 MiB (measured on an H200, benchmarks/results/gpu_ledger.md). Smaller
// allocations share granules. Memory by handle is requested in granules, and pools are figures from the
// driver, so neither is rounded.
constexpr std::uint64_t rounding_of(DeviceMemoryKind kind, std::uint64_t bytes,
                                    std::uint64_t granule = kUsualGranule) {
  if ((kind != DeviceMemoryKind::device && kind != DeviceMemoryKind::array) || bytes <= granule / 2) return 0;
  return (granule - bytes % granule) % granule;
}

}  // namespace headroom
