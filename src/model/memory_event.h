// What the tracer saw, as plain data: an allocation, a release, a layer entered. Ids are types, so that a
// stack is never mistaken for a layer.
#pragma once

#include <compare>
#include <cstdint>

#include "base/units.h"
#include "model/device_memory.h"

namespace headroom {

// A call stack of one recording; 0 is "no stack was taken".
struct StackId {
  std::uint32_t index = 0;
  friend auto operator<=>(const StackId&, const StackId&) = default;
};

// A scope of one recording: a layer, an NVTX range, a graph node; 0 is "outside of any".
struct ScopeId {
  std::uint32_t index = 0;
  friend auto operator<=>(const ScopeId&, const ScopeId&) = default;
};

// A thread of one recording, counted from 0 in the order of their first events.
struct ThreadIndex {
  std::uint32_t index = 0;
  friend auto operator<=>(const ThreadIndex&, const ThreadIndex&) = default;
};

enum class MemoryEventKind : std::uint8_t {
  allocate = 1,          // malloc and its family gave `size` bytes at `address`
  release = 2,           // free, or the first half of a realloc that moved
  map = 3,               // mmap of `size` bytes (what an allocator maps for itself is not recorded)
  unmap = 4,             // munmap of `size` bytes
  enter_scope = 5,       // the thread works for `scope` from now on (0: for none)
  sampled_allocate = 6,  // stands for `weight` allocations of `size` bytes; `address` may be released later
  counters = 7,  // small allocations that were counted only: `count` of `size` bytes in all, in `scope`
  release_counters = 8,  // releases of such: `count`
  gap = 9,               // `count` events of the thread were not written
  // Of a GPU: `device` and `device_kind` say of which and what.
  device_allocate = 10,  // the driver gave `size` bytes; `address` is how it calls them
  device_release = 11,   // of `address`
  device_refused = 12,   // `size` bytes were refused, with `count` charged of the limit in `address`
  device_figure = 13,    // what is no allocation comes to `size` bytes from now on
  reserve = 14,          // mmap of `size` bytes of addresses without access: no memory
  make_accessible = 15,  // mprotect of `size` bytes: what of them was reserved is memory from now on
  weight = 16,  // what was allocated at `address` is a weight, of the scope `count`; the reader's own
  // Of a GPU, behind a device_refused of the thread: process `count` (0: this one) was charged `size` bytes
  // of the limit. `address` is not 0: the number is of another PID namespace.
  device_holder = 17,
};

// Samples are split at random in two halves, each a sample of its own: half A chooses the moment of a peak,
// and half B says what was live then. What was recorded for itself alone is in both, and so are some samples.
enum class SampleHalf : std::uint8_t { both = 0, a = 1, b = 2 };

constexpr bool is_of_device(MemoryEventKind kind) {
  return (kind >= MemoryEventKind::device_allocate && kind <= MemoryEventKind::device_figure) ||
         kind == MemoryEventKind::device_holder;
}

struct MemoryEvent {
  MemoryEventKind kind = MemoryEventKind::allocate;
  SampleHalf half = SampleHalf::both;  // of a sample
  std::uint8_t device = 0;             // its ordinal
  DeviceMemoryKind device_kind = DeviceMemoryKind::device;
  bool is_weight = false;  // an allocation that `scope` owns, in which its thread was not
  ThreadIndex thread;
  ScopeId scope;  // the thread's scope at the time
  StackId stack;
  Nanoseconds time;  // since the start of the recording
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
  double weight = 1;
};

}  // namespace headroom
