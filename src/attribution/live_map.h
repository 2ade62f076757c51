// The allocations that are live, by address: one lookup an event, so it decides the speed of an analysis.
//
// Open addressing with linear probing at a load of at most one half, and deletion by shifting back what
// follows, so that there are no tombstones and a table that lived through a billion events probes as short as
// a new one. An entry is 40 bytes, so a lookup touches one or two cache lines; std::unordered_map takes three
// and an allocation. Memory: 80 to 160 bytes for each block that is live at the fullest moment, and up to 240
// while the table grows. (A table that is fuller, an index of eight bytes an entry, and the addresses apart
// from the rest were tried with half a million live blocks: none was faster.)
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "attribution/huge_pages.h"
#include "attribution/live_block.h"

namespace headroom::attribution {

class LiveMap {
 public:
  LiveMap() : slots_(kFirstSlots), mask_(kFirstSlots - 1), shift_(64 - std::countr_zero(kFirstSlots)) {}

  std::size_t size() const { return size_; }

  // Brings the slot of this address into the cache. With a million live blocks each lookup is a cache miss of
  // 100 ns; asked for some events ahead, they are fetched side by side. (Inline always: GCC takes a call that
  // only prefetches for one without effect, and leaves it out.)
  bool outgrew_the_cache() const { return mask_ >= kCachedSlots; }
  [[gnu::always_inline]] void prefetch(std::uint64_t address) const {
    const auto* slot = reinterpret_cast<const char*>(&slots_[home_of(address)]);
    __builtin_prefetch(slot, 1);
    __builtin_prefetch(slot + 64, 1);  // the next slots
  }

  // Puts the block in. One that lay at its address goes to `replaced`, and the answer is true. The address is
  // not 0.
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

  // Takes the block at this address out, into `block`; false if there is none.
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

  // Moves each entry of the run after `hole` back into it, if its home does not lie behind the hole.
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
    std::vector<LiveBlock> old = in_huge_pages<LiveBlock>(slots_.size() * 2);
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

  std::vector<LiveBlock> slots_;
  std::size_t mask_;  // their number is a power of two
  int shift_;
  std::size_t size_ = 0;
};

}  // namespace headroom::attribution
