// Events that the tracer records: an allocation, a free, a layer entered. Plain data. Ids have distinct
// types, so a stack cannot be confused with a layer.
#pragma once

#include <compare>
#include <cstdint>

#include "base/units.h"
#include "types/device_memory.h"

namespace headroom {

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
