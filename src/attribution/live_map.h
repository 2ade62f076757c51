// The live allocations by address, and counters of live bytes with their value at the peak.
//
// One lookup per event decides the speed of an analysis. So the map uses open addressing with linear probing
// at a load of at most one half. A removal shifts the following entries back, so there are no tombstones and
// a table probes as short after a billion events as when it was new. An entry has 40 bytes, so a lookup
// touches one or two cache lines; std::unordered_map touches three and allocates. Memory: 80 to 160 bytes per
// live block at the peak, up to 240 while the table grows. (A fuller table, an index of 8 bytes per entry,
// and separate addresses were measured with half a million live blocks: none was faster.)
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "attribution/layer_tree.h"
#include "types/memory_event.h"

namespace headroom::attribution {

// Sums of figures from a damaged file may overflow; they wrap like unsigned numbers.
inline void add_wrapping(std::int64_t& sum, std::int64_t by) {
  sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(by));
}

// Nothing if the figure is exact.
inline std::optional<double> standard_error_of(double variance) {
  return variance > 0 ? std::optional(std::sqrt(variance)) : std::nullopt;
}

// The number of the last marked moment.
using Mark = std::uint64_t;

// Live bytes and blocks of a stack, layer, size class or thread, now and at the last marked moment.
//
// Each allocation can be a new peak. Copying all counters then would make the analysis quadratic. So a mark
// only increases a number, and a counter saves its value when it next changes. At the end, a counter that was
// saved since the last mark has the value of that moment; any other counter has not changed since. This is
// exact and costs one comparison per change.
struct LiveCounter {
  std::int64_t bytes = 0, blocks = 0;
  std::int64_t saved_bytes = 0, saved_blocks = 0;
  Mark mark = 0;

  void change(std::int64_t by_bytes, std::int64_t by_blocks, Mark current) {
    if (mark != current) {
      saved_bytes = bytes;
      saved_blocks = blocks;
      mark = current;
    }
    add_wrapping(bytes, by_bytes);
    add_wrapping(blocks, by_blocks);
  }
  // Starts the figures of moment `current` at zero; add_saved() adds to them.
  void begin_saved(Mark current) {
    saved_bytes = saved_blocks = 0;
    mark = current;
  }
  void add_saved(std::int64_t of_bytes, std::int64_t of_blocks) {
    add_wrapping(saved_bytes, of_bytes);
    add_wrapping(saved_blocks, of_blocks);
  }
  std::int64_t bytes_at(Mark current) const { return mark == current ? saved_bytes : bytes; }
  std::int64_t blocks_at(Mark current) const { return mark == current ? saved_blocks : blocks; }
};

// malloc returns no larger block (4 TiB) to a working program. A damaged file may contain one, and its sums
// would overflow.
inline constexpr std::uint64_t kLargestBlock = std::uint64_t{1} << 42;
// Later times come from a damaged file.
inline constexpr std::int64_t kLatestTime = std::int64_t{1} << 60;
// A damaged file may contain any thread index. All indices from this one on count as one thread.
inline constexpr std::uint32_t kMostThreads = 1 << 20;

// One live allocation: 40 bytes, because there is one for each live block of the traced program.
struct LiveBlock {
  std::uint64_t address = 0;  // 0: the slot is free
  std::uint64_t size = 0;     // as requested
  std::int64_t time_ns = 0;
  std::uint32_t stack = 0, layer = 0;
  std::uint32_t thread : 30 = 0;
  std::uint32_t half_bits : 2 = 0;
  float weight = 1;  // a sample represents this many allocations

  // The bytes that the block represents. Always the same number, so that sums return to zero.
  std::int64_t bytes() const {
    if (weight == 1) return static_cast<std::int64_t>(size);
    return rounded(static_cast<double>(size) * static_cast<double>(weight));
  }
  std::int64_t blocks() const { return weight == 1 ? 1 : rounded(static_cast<double>(weight)); }

  // The same for the samples of one half; 0 if the block is not in it.
  std::int64_t bytes_in(SampleHalf half) const {
    if (weight == 1 || half == SampleHalf::both) return bytes();
    return is_in(half) ? bytes_in_its_half() : 0;
  }
  std::int64_t blocks_in(SampleHalf half) const {
    if (weight == 1 || half == SampleHalf::both) return blocks();
    return is_in(half) ? blocks_in_its_half() : 0;
  }
  // For a sample, in each half that contains it.
  std::int64_t bytes_in_its_half() const { return rounded(static_cast<double>(size) * half_weight()); }
  std::int64_t blocks_in_its_half() const { return rounded(half_weight()); }
  // With p = 1/weight, a half contains the sample with probability 1 − √(1 − p) (sample_weights.h).
  double half_weight() const {
    const auto whole = static_cast<double>(weight);
    return whole * (1 + std::sqrt(1 - 1 / whole));
  }
  bool is_in(SampleHalf half) const {
    return half_bits == static_cast<std::uint32_t>(SampleHalf::both) ||
           half_bits == static_cast<std::uint32_t>(half);
  }

 private:
  // For values that are not negative. std::llround would be a call.
  // NOLINTNEXTLINE(bugprone-incorrect-roundings)
  static std::int64_t rounded(double value) { return static_cast<std::int64_t>(value + 0.5); }
};
static_assert(sizeof(LiveBlock) == 40);

// The variance that one sample adds to a sum in which it represents `bytes`. For samples drawn with
// probability p, the sum of size/p has the variance Σ (1 − p)·(size/p)² (Horvitz and Thompson); p is
// 1/weight.
inline double sample_variance(double weight, std::int64_t bytes) {
  const auto of_bytes = static_cast<double>(bytes);
  return (1 - 1 / weight) * of_bytes * of_bytes;
}

// Live bytes by all samples, and by each half of them. Without samples all three are the same.
struct LiveBytes {
  std::int64_t all = 0, a = 0, b = 0;
  std::int64_t b_cut = 0;  // what was subtracted from b, because more is impossible (sampled_peak.h)

  LiveBytes operator-() const { return {-all, -a, -b, 0}; }
};

// What a block represents, also with `more` bytes added to each allocation (an allocator's headers).
struct LiveShare {
  LiveBytes bytes, with_more;
  std::int64_t blocks = 0;

  static LiveShare of_exact(const LiveBlock& block, std::int64_t more) {
    const auto size = static_cast<std::int64_t>(block.size);
    return {{size, size, size, 0}, {size + more, size + more, size + more, 0}, 1};
  }
  static LiveShare of_sample(const LiveBlock& block, std::int64_t more) {
    LiveShare share;
    const std::int64_t bytes = block.bytes_in_its_half(), blocks = block.blocks_in_its_half();
    const std::int64_t in_a = block.is_in(SampleHalf::a) ? 1 : 0, in_b = block.is_in(SampleHalf::b) ? 1 : 0;
    share.blocks = block.blocks();
    share.bytes = {block.bytes(), in_a * bytes, in_b * bytes, 0};
    share.with_more = {share.bytes.all + more * share.blocks, in_a * (bytes + more * blocks),
                       in_b * (bytes + more * blocks), 0};
    return share;
  }
};

inline bool is_allocation(const MemoryEvent& event) {
  return event.kind == MemoryEventKind::allocate || event.kind == MemoryEventKind::sampled_allocate;
}

// The block of an allocation. Returns false if the event is impossible.
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
           std::min(event.thread.index, kMostThreads) & 0x3fffffff,
           static_cast<std::uint32_t>(event.half) & 3,
           static_cast<float>(event.weight)};
  return true;
}

class LiveMap {
 public:
  LiveMap() : slots_(kFirstSlots), mask_(kFirstSlots - 1), shift_(64 - std::countr_zero(kFirstSlots)) {}

  std::size_t size() const { return size_; }

  // Loads the slot of this address into the cache. With a million live blocks each lookup is a cache miss of
  // 100 ns; requests some events ahead overlap. (Always inline: GCC treats a call that only prefetches as a
  // call without effect and removes it.)
  bool outgrew_the_cache() const { return mask_ >= kCachedSlots; }
  [[gnu::always_inline]] void prefetch(std::uint64_t address) const {
    const auto* slot = reinterpret_cast<const char*>(&slots_[home_of(address)]);
    __builtin_prefetch(slot, 1);
    __builtin_prefetch(slot + 64, 1);  // the next slots
  }

  // Inserts the block, whose address is not 0. Returns true if another block had this address, and moves that
  // one to `replaced`.
  bool insert(const LiveBlock& block, LiveBlock& replaced) {
    std::size_t at = home_of(block.address);
    while (slots_[at].address != 0) {
      if (slots_[at].address == block.address) {
        replaced = std::exchange(slots_[at], block);
        return true;
      }
      at = next(at);
    }
    slots_[at] = block;
    if (++size_ * 2 > mask_ + 1) grow();
    return false;
  }

  // Moves the block at this address to `block`. Returns false if there is none.
  bool take(std::uint64_t address, LiveBlock& block) {
    std::size_t at = home_of(address);
    while (slots_[at].address != address) {
      if (slots_[at].address == 0) return false;
      at = next(at);
    }
    if (address == 0) return false;
    block = slots_[at];
    close_gap(at);
    --size_;
    return true;
  }

  // Applies an allocation or a release; ignores other events. Calls changed(block, sign) for each block that
  // is removed (-1) or added (+1). `layers` returns the layer of a scope.
  template <class Layers, class Changed>
  void apply(const MemoryEvent& event, Layers&& layers, Changed&& changed) {
    LiveBlock block, replaced;
    if (event.kind == MemoryEventKind::release) {
      if (take(event.address, block)) changed(block, -1);
      return;
    }
    if (!is_allocation(event) || !make_block(event, layers(event.scope), event.time.count, block)) return;
    if (insert(block, replaced)) changed(replaced, -1);
    changed(block, 1);
  }
  void apply(const MemoryEvent& event, LayerTree& layers) {
    apply(
        event, [&](ScopeId scope) { return layers.of(scope); }, [](const LiveBlock&, int) {});
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const LiveBlock& block : slots_)
      if (block.address != 0) visit(block);
  }

 private:
  static constexpr std::size_t kFirstSlots = 1 << 12;
  static constexpr std::size_t kCachedSlots = 1 << 14;  // 640 KiB, less than a second-level cache

  // Fibonacci hashing: the top bits of a product depend on all bits of the address.
  std::size_t home_of(std::uint64_t address) const {
    return static_cast<std::size_t>((address >> 3) * 0x9e3779b97f4a7c15U >> shift_);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & mask_; }

  // Moves each entry of the run after `hole` back into it, unless its home is behind the hole.
  void close_gap(std::size_t hole) {
    for (std::size_t at = next(hole); slots_[at].address != 0; at = next(at)) {
      const std::size_t home = home_of(slots_[at].address);
      if (((at - home) & mask_) < ((at - hole) & mask_)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].address = 0;
  }

  [[gnu::noinline]] void grow() {
    std::vector<LiveBlock> old = in_huge_pages(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    --shift_;
    for (const LiveBlock& block : old) {
      if (block.address == 0) continue;
      std::size_t at = home_of(block.address);
      while (slots_[at].address != 0) at = next(at);
      slots_[at] = block;
    }
  }

  // Free slots, in pages of 2 MiB if the kernel provides them. With pages of 4 KiB nearly every lookup in a
  // table of 80 MB also misses the page table, which takes up to 24 reads in a virtual machine. Huge pages
  // use no more memory here, because every page is written at once.
  static std::vector<LiveBlock> in_huge_pages(std::size_t count) {
    constexpr std::size_t kHugePage = 2 << 20;
    std::vector<LiveBlock> slots;
    slots.reserve(count);
    void* begin = slots.data();
    std::size_t bytes = count * sizeof(LiveBlock);
    if (std::align(kHugePage, kHugePage, begin, bytes) != nullptr)
      ::madvise(begin, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // only advice: a failure is harmless
    slots.resize(count);
    return slots;
  }

  std::vector<LiveBlock> slots_;
  std::size_t mask_;  // the number of slots is a power of two
  int shift_;
  std::size_t size_ = 0;
};

}  // namespace headroom::attribution
