// The live allocations by address, and counters of live bytes with their value at the peak.
//
// One lookup per event decides the speed of an analysis. So the blocks lie in an array, and a table of 8
// bytes a slot finds them: open addressing with linear probing at a load of at most three quarters. A removal
// shifts the following entries back, so there are no tombstones and a table probes as short after a billion
// events as when it was new. Neighbouring addresses share a cache line of the table, because programs use
// memory that they allocated together at the same time. A place that becomes free is used next, while it is
// in the cache. Memory: 51 to 62 bytes per live block at the peak.
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
  std::uint32_t thread_and_half = 0;  // the half's two bits are the highest
  float weight = 1;                   // a sample represents this many allocations

  std::uint32_t thread() const { return thread_and_half & ((1U << kThreadBits) - 1); }

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
    const std::uint32_t bits = thread_and_half >> kThreadBits;
    return bits == static_cast<std::uint32_t>(SampleHalf::both) || bits == static_cast<std::uint32_t>(half);
  }

  static constexpr unsigned kThreadBits = 30;

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

// Whether the event's scope is a layer's. (Scopes without a name become layers in the order of their first
// such event.)
inline bool has_layer(MemoryEventKind kind) {
  return kind != MemoryEventKind::unmap && kind != MemoryEventKind::gap;
}

// The top half of the addresses is the kernel's.
inline constexpr std::uint64_t kLargestAddress = ~std::uint64_t{0} >> 1;

// Memory for elements, in pages of 2 MiB if the kernel provides them. With pages of 4 KiB nearly every lookup
// in a table of 16 MB also misses the page table, which takes up to 24 reads in a virtual machine. Pages
// without an element take no memory.
template <class Element>
std::vector<Element> reserved_in_huge_pages(std::size_t count) {
  constexpr std::size_t kHugePage = 2 << 20;
  std::vector<Element> elements;
  elements.reserve(count);
  void* begin = elements.data();
  std::size_t bytes = count * sizeof(Element);
  if (std::align(kHugePage, kHugePage, begin, bytes) != nullptr)
    ::madvise(begin, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // only advice: a failure is harmless
  return elements;
}
template <class Element>
std::vector<Element> in_huge_pages(std::size_t count) {
  std::vector<Element> elements = reserved_in_huge_pages<Element>(count);
  elements.resize(count);
  return elements;
}

// The block of an allocation. Returns false if the event is impossible.
inline bool make_block(const MemoryEvent& event, LayerIndex layer, std::int64_t time, LiveBlock& block) {
  constexpr auto kLargest = static_cast<double>(kLargestBlock);
  if (event.address == 0 || event.address > kLargestAddress || event.size > kLargestBlock ||
      !(event.weight <= kLargest) || static_cast<double>(event.size) * event.weight > kLargest)
    return false;
  block = {event.address,
           event.size,
           time,
           event.stack.index,
           layer,
           std::min(event.thread.index, kMostThreads) | static_cast<std::uint32_t>(event.half)
                                                            << LiveBlock::kThreadBits,
           static_cast<float>(event.weight)};
  return true;
}

// `Block` has a member `address`, which is not 0 and at most kLargestAddress.
template <class Block>
class BlockMap {
 public:
  BlockMap()
      : slots_(kFirstSlots), mask_(kFirstSlots - 1), shift_(kHashBits - std::countr_zero(kFirstSlots)) {}

  BlockMap(BlockMap&&) = default;
  BlockMap& operator=(BlockMap&&) = default;

  std::size_t size() const { return size_; }

  // With a million live blocks each lookup is a cache miss of 100 ns. Requests for many events at once
  // overlap: prefetch() first, for all of them, and then prefetch_block(). (Always inline: GCC treats a call
  // that only prefetches as a call without effect and removes it.)
  bool outgrew_the_cache() const { return mask_ >= kCachedSlots; }
  [[gnu::always_inline]] void prefetch(std::uint64_t address) const {
    __builtin_prefetch(&slots_[home_of(hash_of(address))], 1);
  }
  [[gnu::always_inline]] void prefetch_block(std::uint64_t address) const {
    const std::uint32_t hash = hash_of(address);
    for (std::size_t at = home_of(hash); slots_[at].place != 0; at = next(at)) {
      if (slots_[at].hash != hash) continue;
      const auto* block = reinterpret_cast<const char*>(&block_at(slots_[at].place));
      __builtin_prefetch(block, 1);
      __builtin_prefetch(block + sizeof(Block) - 1, 1);
      return;
    }
  }

  // Null if there is none. Valid until the next change.
  const Block* find(std::uint64_t address) const {
    const std::uint32_t hash = hash_of(address);
    for (std::size_t at = home_of(hash); slots_[at].place != 0; at = next(at))
      if (slots_[at].hash == hash && block_at(slots_[at].place).address == address)
        return &block_at(slots_[at].place);
    return nullptr;
  }

  // Inserts the block, whose address is not 0. Returns true if another block had this address, and moves that
  // one to `replaced`.
  [[gnu::always_inline]] bool insert(const Block& block, Block& replaced) {
    const std::uint32_t hash = hash_of(block.address);
    std::size_t at = home_of(hash);
    for (; slots_[at].place != 0; at = next(at)) {
      Block& known = block_at(slots_[at].place);
      if (slots_[at].hash != hash || known.address != block.address) continue;
      replaced = known;
      known = block;
      return true;
    }
    const std::uint32_t place = new_place();
    block_at(place) = block;
    slots_[at] = {hash, place};
    if (++size_ * 4 > slots_.size() * 3) grow();
    return false;
  }

  // Moves the block at this address to `block`. Returns false if there is none.
  bool take(std::uint64_t address, Block& block) {
    if (address == 0) return false;
    const std::uint32_t hash = hash_of(address);
    for (std::size_t at = home_of(hash); slots_[at].place != 0; at = next(at)) {
      const std::uint32_t place = slots_[at].place;
      if (slots_[at].hash != hash || block_at(place).address != address) continue;
      block = block_at(place);
      block_at(place).address = kIsFree | std::exchange(free_, place);
      close_gap(at);
      --size_;
      return true;
    }
    return false;
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::uint32_t place = 1; place < end_; ++place)
      if (const Block& block = block_at(place); (block.address & kIsFree) == 0) visit(block);
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t place = 0;  // of the block; 0: the slot is free
  };
  static constexpr std::size_t kFirstSlots = 1 << 12;
  static constexpr std::size_t kCachedSlots = 1 << 14;  // 128 KiB and the blocks: the second-level cache
  static constexpr int kHashBits = 32;
  static constexpr std::uint32_t kPart = 1 << 12;
  static constexpr std::uint64_t kIsFree = kLargestAddress + 1;  // set in the address of a free place

  // Eight slots (a cache line) for each 256 bytes of addresses, by Fibonacci hashing. Within the line each 32
  // bytes have their slot, because glibc's smallest chunk has 32 bytes.
  static std::uint32_t hash_of(std::uint64_t address) {
    return static_cast<std::uint32_t>((address >> 8) * 0x9e3779b97f4a7c15U >> 32 & ~std::uint64_t{7}) |
           (address >> 5 & 7);
  }
  std::size_t home_of(std::uint32_t hash) const { return (hash >> shift_ & ~std::size_t{7}) | (hash & 7); }
  std::size_t next(std::size_t at) const { return (at + 1) & mask_; }

  Block& block_at(std::uint32_t place) { return parts_[place / kPart][place % kPart]; }
  const Block& block_at(std::uint32_t place) const { return parts_[place / kPart][place % kPart]; }
  std::uint32_t new_place() {
    if (free_ != 0) return std::exchange(free_, static_cast<std::uint32_t>(block_at(free_).address));
    if (end_ / kPart == parts_.size()) add_parts();
    return end_++;
  }

  // Moves each entry of the run after `hole` back into it, unless its home is behind the hole.
  void close_gap(std::size_t hole) {
    for (std::size_t at = next(hole); slots_[at].place != 0; at = next(at)) {
      const std::size_t home = home_of(slots_[at].hash);
      if (((at - home) & mask_) < ((at - hole) & mask_)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].place = 0;
  }

  [[gnu::noinline]] void grow() {
    std::vector<Slot> old = in_huge_pages<Slot>(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    --shift_;
    for (const Slot& slot : old) {
      if (slot.place == 0) continue;
      std::size_t at = home_of(slot.hash);
      while (slots_[at].place != 0) at = next(at);
      slots_[at] = slot;
    }
  }

  // A few blocks need little memory, many are allocated together.
  [[gnu::noinline]] void add_parts() {
    constexpr std::size_t kSingleParts = 16, kPartsAtOnce = 64;
    const std::size_t count = parts_.size() < kSingleParts ? 1 : kPartsAtOnce;
    blocks_.push_back(in_huge_pages<Block>(count * kPart));
    for (std::size_t i = 0; i < count; ++i) parts_.push_back(blocks_.back().data() + i * kPart);
  }

  std::vector<Slot> slots_;
  std::size_t mask_;  // the number of slots is a power of two
  int shift_;
  std::size_t size_ = 0;
  std::vector<std::vector<Block>> blocks_;
  std::vector<Block*> parts_;  // of blocks_, each with kPart blocks
  std::uint32_t end_ = 1;      // places below were used; 0 is none
  std::uint32_t free_ = 0;     // a free place, which has the next one in its address; 0: none
};

class LiveMap : public BlockMap<LiveBlock> {
 public:
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
};

}  // namespace headroom::attribution
