// One live allocation, as the analysis keeps it: 40 bytes, since there is one for each that the traced
// program holds at once.
#pragma once

#include <cmath>
#include <cstdint>

#include "analysis/layer_tree.h"
#include "model/memory_event.h"

namespace headroom::analysis {

// No malloc of a working program gives more (4 TiB); a damaged file says it does, and its sums would
// overflow.
inline constexpr std::uint64_t kLargestBlock = std::uint64_t{1} << 42;

struct LiveBlock {
  std::uint64_t address = 0;  // 0: the slot is free
  std::uint64_t size = 0;     // as was asked for
  std::int64_t time_ns = 0;
  std::uint32_t stack = 0, layer = 0, thread = 0;
  float weight = 1;  // of a sample: it stands for so many allocations

  // The bytes that it stands for; the same number whenever it is asked, so that sums come back to zero.
  std::int64_t bytes() const {
    if (weight == 1) return static_cast<std::int64_t>(size);
    return std::llround(static_cast<double>(size) * static_cast<double>(weight));
  }
  std::int64_t blocks() const { return weight == 1 ? 1 : std::llround(weight); }
};

inline bool is_allocation(const MemoryEvent& event) {
  return event.kind == MemoryEventKind::allocate || event.kind == MemoryEventKind::sampled_allocate;
}

// The block of an allocation; false if no allocation can be what the event says.
inline bool make_block(const MemoryEvent& event, LayerIndex layer, std::int64_t time, LiveBlock& block) {
  constexpr auto kLargest = static_cast<double>(kLargestBlock);
  if (event.address == 0 || event.size > kLargestBlock || !(event.weight <= kLargest) ||
      static_cast<double>(event.size) * event.weight > kLargest)
    return false;
  block = {event.address,
           event.size,
           time,
           event.stack.index,
           layer,
           event.thread.index,
           static_cast<float>(event.weight)};
  return true;
}

}  // namespace headroom::analysis
