// Fragmentation of the heap: how much of it lies idle between the allocations, at moments spread over the
// recording.
//
// Internal fragmentation is what headers and rounding add to each block. External fragmentation is the holes
// between live blocks. The addresses of the live blocks show the heap's extents: neighbours belong to one
// extent if they lie in the same heap (HeapLayout); blocks that are mappings of their own belong to none. So
// a full recording is needed, and a hole at an extent's end, which the allocator returns, does not count.
//
// Sorting the live blocks takes n log n. So there is at most one moment per 32 events per live block: less
// than 2 ns per event. A heap that grows and shrinks in fewer events has only one moment, the end.
// HeapExtents notices such a peak, and add_fragmentation_moments() examines it in a second pass.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "attribution/live_map.h"
#include "base/units.h"
#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::attribution {

// The size of an allocation with overhead, by the rules of glibc's malloc on 64-bit machines: eight bytes of
// header, multiples of sixteen, at least 32 bytes. Other allocators round differently; reports name the
// rules.
inline constexpr std::uint64_t kChunkHeader = 8, kChunkStep = 16, kSmallestChunk = 32;

inline std::uint64_t chunk_bytes(std::uint64_t size) {
  return std::max(kSmallestChunk, (size + kChunkHeader + kChunkStep - 1) & ~(kChunkStep - 1));
}

// Allocations of at least kMappingThreshold (M_MMAP_THRESHOLD) can be mappings of their own. These leave no
// hole and are not part of the heap's extents. They start 16 bytes into a page, or at their alignment: at 32,
// 64, … 2048, or at the page itself. One in 28 large blocks of the heap starts like this by chance. The
// threshold grows with released mappings up to kLargestThreshold; larger allocations are always mappings,
// unless the program disables them.
inline constexpr std::uint64_t kMappingThreshold = 128 << 10, kLargestThreshold = 32 << 20, kPage = 4096;
inline bool can_be_own_mapping(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t offset = address & (kPage - 1);
  return size >= kMappingThreshold && (offset & (offset - 1)) == 0 && offset != 8;
}

// Which addresses can belong to one heap, by the rules of glibc's malloc on 64-bit Linux. The main heap is
// behind the program, at its break. It is contiguous, however large its holes are, because nothing else is
// mapped there. Every other arena consists of stretches of 64 MiB of addresses, aligned to 64 MiB. The unused
// end of a stretch is not memory, so no hole extends into the next stretch. Heaps of other allocators are cut
// at the same addresses.
class HeapLayout {
 public:
  static constexpr std::uint64_t kStretch = 64 << 20;  // HEAP_MAX_SIZE

  HeapLayout() = default;  // the place of the break is unknown
  // Addresses in [begin, end) belong to the break, except for the stretch at its end.
  HeapLayout(std::uint64_t begin, std::uint64_t end)
      : first_(begin / kStretch), end_(std::max(end / kStretch, first_)) {}

  bool is_stretch_of_break(std::uint64_t stretch) const { return stretch >= first_ && stretch < end_; }
  bool is_of_break(std::uint64_t address) const { return is_stretch_of_break(address / kStretch); }
  bool is_one_heap(std::uint64_t address, std::uint64_t other) const {
    return address / kStretch == other / kStretch || (is_of_break(address) && is_of_break(other));
  }

 private:
  std::uint64_t first_ = 0, end_ = 0;  // stretches
};

HeapLayout heap_layout_of(const recording::RecordingInfo& info);

// Size of the heap and of its holes after every event, with a resolution of 16 KiB. So the moments with the
// maximum of either are known without sorting the live blocks.
//
// Counts the blocks that start or end in each unit of 16 KiB. An extent reaches from the first used unit to
// the last one in the same heap. Only a unit that gets its first block or loses its last one can move the end
// of an extent. (With units of one page and blocks of a page, every second event would.) Memory: 16.5 KiB per
// 64 MiB of heap.
class HeapExtents {
 public:
  static constexpr std::uint64_t kUnit = 16 << 10;  // bytes

  explicit HeapExtents(const HeapLayout& layout = {}) : layout_(layout) {}

  void add(const LiveBlock& block) { change(block, 1); }
  void remove(const LiveBlock& block) { change(block, -1); }

  // Loads the count for a block at this address into the cache.
  [[gnu::always_inline]] void prefetch(std::uint64_t address) const {
    const std::uint64_t unit = (address - kChunkHeader) / kUnit;
    const Recent& recent = recent_[unit / kUnitsOfAPart % kRecent];
    if (recent.part != nullptr) __builtin_prefetch(&recent.part->blocks[unit % kUnitsOfAPart], 1);
  }

  // At most two units too large per extent.
  std::int64_t extent_bytes() const { return extent_bytes_; }
  std::int64_t free_bytes() const { return extent_bytes_ - chunk_bytes_; }

 private:
  static constexpr std::uint64_t kUnitsOfAPart = HeapLayout::kStretch / kUnit;
  // 128 GiB of heap. A damaged file has blocks everywhere; those in further parts are ignored.
  static constexpr std::size_t kMostParts = 1 << 11;
  static constexpr std::size_t kRecent = 64;  // 4 GiB of heap

  // A stretch of the layout.
  struct Part {
    std::array<std::uint64_t, kUnitsOfAPart / 64> used{};  // one bit per unit with a block
    std::array<std::uint32_t, kUnitsOfAPart> blocks{};
    std::uint32_t used_units = 0, first = 0, last = 0;  // first and last used unit, if any
  };
  struct Recent {
    std::uint64_t number = ~std::uint64_t{0};
    Part* part = nullptr;
  };

  void change(const LiveBlock& block, std::int64_t sign) {
    // A possible mapping of its own is not part of the heap.
    if (block.size >= kMappingThreshold && !layout_.is_of_break(block.address) &&
        (block.size >= kLargestThreshold || can_be_own_mapping(block.address, block.size)))
      return;
    const std::uint64_t begin = block.address - kChunkHeader, bytes = chunk_bytes(block.size);
    const std::uint64_t first = begin / kUnit, last = (begin + bytes - 1) / kUnit;
    chunk_bytes_ += sign * static_cast<std::int64_t>(bytes);
    count(first, sign);
    if (last != first) count(last, sign);
  }

  void count(std::uint64_t unit, std::int64_t sign) {
    Part* part = part_of(unit / kUnitsOfAPart, sign > 0);
    if (part == nullptr) return;
    std::uint32_t& blocks = part->blocks[unit % kUnitsOfAPart];
    const bool was_used = blocks > 0;
    blocks += static_cast<std::uint32_t>(sign);
    if (was_used == (blocks > 0)) return;
    toggle(*part, unit);
  }

  Part* part_of(std::uint64_t number, bool make) {
    Recent& recent = recent_[number % kRecent];
    if (recent.number == number) return recent.part;
    Part* part = find_part(number, make);
    if (part != nullptr) recent = {number, part};
    return part;
  }

  Part* find_part(std::uint64_t number, bool make);
  void toggle(Part& part, std::uint64_t unit);
  static void toggle_in_part(Part& part, std::uint32_t index);
  // Units from the first to the last used one of the heap that contains this part.
  std::uint64_t reach_of(const Part& part, bool is_of_break) const;

  HeapLayout layout_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Part>> parts_;
  std::map<std::uint64_t, const Part*> of_break_;  // parts with a block
  std::array<Recent, kRecent> recent_;
  std::int64_t extent_bytes_ = 0, chunk_bytes_ = 0;
};

// The blocks of a blocker that one call stack allocated in one layer.
struct BlockerPlace {
  StackId stack;
  std::uint32_t layer = 0;
  std::int64_t blocks = 0, bytes = 0;
};

// The live blocks at one end of the largest hole, up to the next hole of at least a sixteenth of its size, or
// to the extent's end. Of the two ends, the one whose removal gives the larger hole per byte.
struct Blocker {
  static constexpr std::size_t kMostPlaces = 5;

  std::uint64_t address = 0;           // of the first block
  std::int64_t blocks = 0, bytes = 0;  // as requested
  std::int64_t span_bytes = 0;         // from the start of the first block to the end of the last
  std::int64_t freed_if_gone = 0;      // size of the largest hole without these blocks
  Nanoseconds allocated_at;            // of the oldest block
  Nanoseconds age;                     // its age at the moment
  std::array<BlockerPlace, kMostPlaces> most = {};
  std::size_t place_count = 0;

  // The places with the most bytes.
  std::span<const BlockerPlace> places() const { return {most.data(), place_count}; }
};

struct FragmentationMoment {
  Nanoseconds time;
  std::int64_t live_bytes = 0;          // as requested, in extents or in mappings of their own
  std::int64_t chunk_bytes = 0;         // the same with headers and rounding
  std::int64_t extent_bytes = 0;        // from the first to the last live block of each extent
  std::int64_t free_bytes = 0;          // the part of these in holes
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
  std::size_t worst = 0;                     // the moment with the most free bytes in holes
  std::size_t largest = 0;                   // the moment with the largest extents: the heap's real size

  void find_extremes();
};

// The blocks of the heap, by address: without those that glibc mapped individually. Such a block starts at
// its alignment and shares no page with a neighbour.
std::vector<LiveBlock> blocks_of_heap(std::vector<LiveBlock> blocks, const HeapLayout& layout = {});

// One moment, for any set of live blocks.
FragmentationMoment fragmentation_of(std::vector<LiveBlock> blocks, Nanoseconds time,
                                     const HeapLayout& layout = {});

// What the size of holes depends on: half as large as a LiveBlock, so a million are sorted in less time.
struct HeapBlock {
  std::uint64_t address = 0, size = 0;
};

class FragmentationSampler {
 public:
  explicit FragmentationSampler(const HeapLayout& layout = {}) : layout_(layout), extents_(layout) {}

  // Call after every event that changed the heap, and so `live`. Measures a moment when it is due.
  void allocated(const LiveBlock& block, const LiveMap& live, Nanoseconds time) {
    extents_.add(block);
    changed(block, true, live, time);
  }
  void released(const LiveBlock& block, const LiveMap& live, Nanoseconds time) {
    extents_.remove(block);
    changed(block, false, live, time);
  }
  // Prefetches what a block at this address will need.
  [[gnu::always_inline]] void prefetch(std::uint64_t address) const { extents_.prefetch(address); }
  // A block without a recorded release, whose address was allocated again.
  void replaced(const LiveBlock& block) {
    extents_.remove(block);
    if (is_waiting_) since_.push_back({block, false});
  }

  // `with_extremes`: also the moments before the extents or the holes shrank from their maximum.
  HeapFragmentation finish(const LiveMap& live, Nanoseconds time, bool with_extremes);
  // After finish(): the moments of the largest extents and of the most bytes in holes, unless a measured
  // moment comes close to them (by 3 % and 12 %; `exactly`: equals them).
  std::vector<Nanoseconds> passed_over(bool exactly) const;

 private:
  static constexpr std::int64_t kFirstStride = 1 << 10;
  // The maximum, its time, and the maximum of the measured moments. `part`: a moment within 1/part of the
  // maximum is close to it.
  struct Most {
    std::int64_t part = 1, bytes = 0, taken = 0;
    Nanoseconds time = {};
    std::int64_t lost_below = 0;  // no measured moment is close to the maximum, and this state is not either

    void note(std::int64_t now, Nanoseconds at) {
      if (now <= bytes) return;
      bytes = now;
      time = at;
      find_lost_below();
    }
    void take(std::int64_t now) {
      taken = std::max(taken, now);
      find_lost_below();
    }
    void find_lost_below() { lost_below = taken < bytes - bytes / part ? bytes - bytes / part : 0; }
  };
  struct Taken {
    FragmentationMoment moment;
    std::int64_t extent_bytes = 0, free_bytes = 0;  // by HeapExtents
  };

  struct State {
    std::int64_t extent = 0, free = 0;  // by HeapExtents
    Nanoseconds time;
  };
  struct Change {
    LiveBlock block;
    bool was_added;
  };
  // The moment before the extents or the holes shrank from a maximum. While a heap grows, most are replaced
  // soon by the next one. So a moment waits until it is needed: the blocks at that time follow from those of
  // now and the changes since.
  struct Extreme {
    State state;
    std::size_t changes_before = 0;  // index in since_, while it waits
    bool waits = false;
    std::optional<Taken> taken;  // nothing while it waits
  };

  void changed(LiveBlock block, bool was_added, const LiveMap& live, Nanoseconds time) {
    const std::int64_t extent = extents_.extent_bytes(), free = extents_.free_bytes();
    if (extent < extent_.lost_below || free < free_.lost_below) [[unlikely]]
      keep_before();
    extent_.note(extent, time);
    free_.note(free, time);
    before_ = {extent, free, time};
    if (is_waiting_) [[unlikely]]
      remember({block, was_added}, live);
    if (--events_left_ == 0) take(live, time);
  }
  void take(const LiveMap& live, Nanoseconds time);
  void keep_before();
  void remember(const Change& change, const LiveMap& live);
  void measure_waiting(const LiveMap& live);
  void measure(Extreme& extreme, const LiveMap& live);

  std::int64_t stride_ = kFirstStride, events_left_ = kFirstStride;
  HeapLayout layout_;
  HeapExtents extents_;
  Most extent_{.part = 32}, free_{.part = 8};
  State before_;
  std::vector<Taken> taken_;
  Extreme largest_, worst_;                 // before the extents or the holes shrank
  bool is_waiting_ = false;                 // one of them waits
  std::vector<Change> since_;               // since the first that waits
  std::vector<HeapBlock> blocks_, buffer_;  // of take(): kept, because fresh memory takes as long as sorting
};

}  // namespace headroom::attribution
