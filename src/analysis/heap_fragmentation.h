// How much of the heap lies idle between the allocations, at moments spread over the recording.
//
// Inside: what headers and rounding add to each block (glibc_chunk.h). Outside: holes between live blocks.
// The heap's extents are read off the addresses of the live blocks themselves: neighbours belong to one
// extent if they are less than kLargestHole apart, and blocks that are mappings of their own to none. So it
// needs a full recording, and a hole at an extent's end (which the allocator gives back) does not count.
//
// Sorting the live blocks takes n log n, so moments come no denser than one in 32 events a live block: under
// 2 ns an event.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/live_map.h"
#include "base/units.h"
#include "model/memory_event.h"

namespace headroom::analysis {

// Half of the 64 MiB that glibc reserves for a thread's arena: what is further apart is not one heap.
inline constexpr std::uint64_t kLargestHole = 32 << 20;

// The live allocation that keeps two holes from being one. Of all of them, that which would set free most.
struct Blocker {
  std::uint64_t address = 0;
  std::int64_t size = 0;
  StackId stack;
  std::uint32_t layer = 0;
  ThreadIndex thread;
  Nanoseconds allocated_at;
  Nanoseconds age;                 // at the moment
  std::int64_t freed_if_gone = 0;  // the hole that would be there instead of it and its neighbours
};

struct FragmentationMoment {
  Nanoseconds time;
  std::int64_t live_bytes = 0;          // as asked for, in extents or mapped alone
  std::int64_t chunk_bytes = 0;         // the same with headers and rounding
  std::int64_t extent_bytes = 0;        // from the first to the last live block of each extent
  std::int64_t free_bytes = 0;          // of these, in holes
  std::int64_t largest_free_bytes = 0;  // the largest hole
  std::int64_t extents = 0, holes = 0;
  std::optional<Blocker> blocker;

  double internal() const {
    return chunk_bytes > 0 ? 1 - static_cast<double>(live_bytes) / static_cast<double>(chunk_bytes) : 0;
  }
  double external() const {
    return extent_bytes > 0 ? static_cast<double>(free_bytes) / static_cast<double>(extent_bytes) : 0;
  }
};

struct HeapFragmentation {
  std::vector<FragmentationMoment> moments;  // ascending; the last is the end of the recording
  std::size_t worst = 0;                     // the moment with most free bytes in holes
  std::size_t largest = 0;                   // the moment when the extents were largest: what the heap costs
};

// Those that lie in the heap, by address: not what glibc mapped for one block alone. Such a block begins
// where its alignment puts it and shares no page with a neighbour.
std::vector<LiveBlock> blocks_of_heap(std::vector<LiveBlock> blocks);

// One moment, of any set of live blocks.
FragmentationMoment fragmentation_of(std::vector<LiveBlock> blocks, Nanoseconds time);

class FragmentationSampler {
 public:
  // Call after every event that changed the heap; takes a moment when it is time for one.
  void changed(const LiveMap& live, Nanoseconds time) {
    if (--events_left_ == 0) take(live, time);
  }
  HeapFragmentation finish(const LiveMap& live, Nanoseconds time);

 private:
  static constexpr std::int64_t kFirstStride = 1 << 10;
  void take(const LiveMap& live, Nanoseconds time);

  std::int64_t stride_ = kFirstStride, events_left_ = kFirstStride;
  std::vector<FragmentationMoment> moments_;
};

}  // namespace headroom::analysis
