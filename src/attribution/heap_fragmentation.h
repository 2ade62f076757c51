// How much of the heap lies idle between the allocations, at moments spread over the recording.
//
// Inside: what headers and rounding add to each block (glibc_chunk.h). Outside: holes between live blocks.
// The heap's extents are read off the addresses of the live blocks themselves: neighbours belong to one
// extent if they lie in one heap (heap_layout.h), and blocks that are mappings of their own to none. So it
// needs a full recording, and a hole at an extent's end (which the allocator gives back) does not count.
//
// Sorting the live blocks takes n log n, so moments come no denser than one in 32 events a live block: under
// 2 ns an event. What that passes over (a heap that is built up and torn down in fewer events has one moment,
// the end) HeapExtents notices, and a second pass looks at it (fragmentation_moments.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attribution/heap_extents.h"
#include "attribution/heap_layout.h"
#include "attribution/live_map.h"
#include "base/units.h"
#include "types/memory_event.h"

namespace headroom::attribution {

// One call stack's blocks of a blocker, in one layer.
struct BlockerPlace {
  StackId stack;
  std::uint32_t layer = 0;
  std::int64_t blocks = 0, bytes = 0;
};

// The live blocks at one end of the largest hole, up to the next hole that is at least a sixteenth of it or
// to the extent's end. Of both ends, those without which there would be the larger hole for each of their
// bytes.
struct Blocker {
  static constexpr std::size_t kMostPlaces = 5;

  std::uint64_t address = 0;           // of the first
  std::int64_t blocks = 0, bytes = 0;  // as asked for
  std::int64_t span_bytes = 0;         // from where the first begins to where the last ends
  std::int64_t freed_if_gone = 0;      // what the largest hole would be without them
  Nanoseconds allocated_at;            // the oldest of them
  Nanoseconds age;                     // its, at the moment
  std::array<BlockerPlace, kMostPlaces> most = {};
  std::size_t place_count = 0;

  // Those that have most of it.
  std::span<const BlockerPlace> places() const { return {most.data(), place_count}; }
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

  void find_extremes();
};

// Those that lie in the heap, by address: not what glibc mapped for one block alone. Such a block begins
// where its alignment puts it and shares no page with a neighbour.
std::vector<LiveBlock> blocks_of_heap(std::vector<LiveBlock> blocks, const HeapLayout& layout = {});

// One moment, of any set of live blocks.
FragmentationMoment fragmentation_of(std::vector<LiveBlock> blocks, Nanoseconds time,
                                     const HeapLayout& layout = {});

std::vector<LiveBlock> blocks_of(const LiveMap& live);

class FragmentationSampler {
 public:
  explicit FragmentationSampler(const HeapLayout& layout = {}) : layout_(layout), extents_(layout) {}

  // Call after every event that changed the heap, and so `live`; takes a moment when it is time for one.
  void allocated(const LiveBlock& block, const LiveMap& live, Nanoseconds time) {
    extents_.add(block);
    changed(live, time);
  }
  void released(const LiveBlock& block, const LiveMap& live, Nanoseconds time) {
    extents_.remove(block);
    changed(live, time);
  }
  // What a block at this address will need.
  [[gnu::always_inline]] void prefetch(std::uint64_t address) const { extents_.prefetch(address); }
  // A block whose release is not in the recording: another was allocated where it lay.
  void replaced(const LiveBlock& block) { extents_.remove(block); }

  HeapFragmentation finish(const LiveMap& live, Nanoseconds time);
  // After that: the moments of the largest extents and of most holes, if a moment that was taken does not
  // come close to them (by 3 % and 12 %; `exactly`: at all).
  std::vector<Nanoseconds> passed_over(bool exactly) const;

 private:
  static constexpr std::int64_t kFirstStride = 1 << 10;
  // The most bytes that there were, when, and the most at the moments that were taken.
  struct Most {
    std::int64_t bytes = 0, taken = 0;
    Nanoseconds time;

    void note(std::int64_t now, Nanoseconds at) {
      if (now <= bytes) return;
      bytes = now;
      time = at;
    }
  };

  void changed(const LiveMap& live, Nanoseconds time) {
    extent_.note(extents_.extent_bytes(), time);
    free_.note(extents_.free_bytes(), time);
    if (--events_left_ == 0) take(live, time);
  }
  void take(const LiveMap& live, Nanoseconds time);

  std::int64_t stride_ = kFirstStride, events_left_ = kFirstStride;
  HeapLayout layout_;
  HeapExtents extents_;
  Most extent_, free_;
  struct Taken {
    FragmentationMoment moment;
    std::int64_t extent_bytes = 0, free_bytes = 0;  // by HeapExtents
  };
  std::vector<Taken> taken_;
};

}  // namespace headroom::attribution
