// Events that the tracer records: an allocation, a free, a layer entered. Plain data. Ids have distinct
// types, so a stack cannot be confused with a layer.
#pragma once

#include <compare>
#include <cstdint>

#include "base/units.h"

namespace headroom {

// Kinds of memory that a GPU driver allocates. The numbers are part of the recording format.
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

// A call stack in one recording; 0: no stack was recorded.
struct StackId {
  std::uint32_t index = 0;
  friend auto operator<=>(const StackId&, const StackId&) = default;
};

// A scope in one recording: a layer, an NVTX range, a graph node; 0: outside any scope.
struct ScopeId {
  std::uint32_t index = 0;
  friend auto operator<=>(const ScopeId&, const ScopeId&) = default;
};

// A thread in one recording, numbered from 0 in the order of first events.
struct ThreadIndex {
  std::uint32_t index = 0;
  friend auto operator<=>(const ThreadIndex&, const ThreadIndex&) = default;
};

enum class MemoryEventKind : std::uint8_t {
  allocate = 1,          // malloc and its family returned `size` bytes at `address`
  release = 2,           // free, or the free half of a realloc that moved the block
  map = 3,               // mmap of `size` bytes (not recorded for mappings of the allocator itself)
  unmap = 4,             // munmap of `size` bytes
  enter_scope = 5,       // the thread now works for `scope` (0: for none)
  sampled_allocate = 6,  // represents `weight` allocations of `size` bytes; `address` may be freed later
  counters = 7,  // small allocations that were only counted: `count`, with `size` bytes in total, in `scope`
  release_counters = 8,  // frees of counted allocations: `count`
  gap = 9,               // `count` events of the thread were lost
  // GPU events: `device` is the ordinal and `device_kind` the kind of memory.
  device_allocate = 10,  // the driver allocated `size` bytes; `address` is the driver's name for them
  device_release = 11,   // frees `address`
  // `size` bytes were refused; `count` bytes were charged, and the limit is in `address`.
  device_refused = 12,
  device_figure = 13,    // new value, in `size`, of a figure that is not an allocation
  reserve = 14,          // mmap of `size` bytes of addresses without access: uses no memory
  make_accessible = 15,  // mprotect of `size` bytes: the reserved part of them becomes memory
  // The allocation at `address` is a weight of scope `count`. Recording handles it and does not pass it on.
  weight = 16,
  // Follows a device_refused of the same thread: process `count` (0: this process) was charged `size` bytes
  // of the limit. A non-zero `address` means that the number is from another PID namespace.
  device_holder = 17,
};

// Samples are split at random into two halves; each half is a complete sample. Half A chooses the time of a
// peak, and half B shows the memory that was live then. Allocations that were recorded individually are in
// both halves, and so are some samples.
enum class SampleHalf : std::uint8_t { both = 0, a = 1, b = 2 };

constexpr bool is_of_device(MemoryEventKind kind) {
  return (kind >= MemoryEventKind::device_allocate && kind <= MemoryEventKind::device_figure) ||
         kind == MemoryEventKind::device_holder;
}

struct MemoryEvent {
  MemoryEventKind kind = MemoryEventKind::allocate;
  SampleHalf half = SampleHalf::both;  // for a sample
  std::uint8_t device = 0;             // device ordinal
  DeviceMemoryKind device_kind = DeviceMemoryKind::device;
  bool is_weight = false;  // `scope` owns the allocation, but the thread was not in that scope
  ThreadIndex thread;
  ScopeId scope;  // the thread's scope at that time
  StackId stack;
  Nanoseconds time;  // since the start of the recording
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
  double weight = 1;
};

}  // namespace headroom
