// How far the heap reaches and how much of that lies in holes, after every event and to 16 KiB: so the
// moments when either was largest are known without sorting the live blocks at each (heap_fragmentation.h).
//
// Counts, by unit of 16 KiB, the blocks that begin or end there. An extent reaches from the first unit with
// any to the last one in the same heap (heap_layout.h). Only a unit that gets its first block or loses its
// last one may move an extent's ends: of units of a page, where blocks are as large as pages, every second
// would. Memory: 16.5 KiB for 64 MiB of heap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "attribution/glibc_chunk.h"
#include "attribution/heap_layout.h"
#include "attribution/live_block.h"

namespace headroom::attribution {

class HeapExtents {
 public:
  static constexpr std::uint64_t kUnit = 16 << 10;  // bytes

  explicit HeapExtents(const HeapLayout& layout = {}) : layout_(layout) {}

  void add(const LiveBlock& block) { change(block, 1); }
  void remove(const LiveBlock& block) { change(block, -1); }

  // Brings the count of a block that begins at this address into the cache.
  [[gnu::always_inline]] void prefetch(std::uint64_t address) const {
    const std::uint64_t unit = (address - kChunkHeader) / kUnit;
    const Recent& recent = recent_[unit / kUnitsOfAPart % kRecent];
    if (recent.part != nullptr) __builtin_prefetch(&recent.part->blocks[unit % kUnitsOfAPart], 1);
  }

  // Of each extent up to two units too much.
  std::int64_t extent_bytes() const { return extent_bytes_; }
  std::int64_t free_bytes() const { return extent_bytes_ - chunk_bytes_; }

 private:
  static constexpr std::uint64_t kUnitsOfAPart = HeapLayout::kStretch / kUnit;
  // 128 GiB of heap; a damaged file has blocks everywhere, and what lies further is left out.
  static constexpr std::size_t kMostParts = 1 << 11;
  static constexpr std::size_t kRecent = 64;  // of 4 GiB of heap

  // One of the layout's stretches.
  struct Part {
    std::array<std::uint64_t, kUnitsOfAPart / 64> used{};  // a bit for each unit with a block
    std::array<std::uint32_t, kUnitsOfAPart> blocks{};
    std::uint32_t used_units = 0, first = 0, last = 0;  // if there are any
  };
  struct Recent {
    std::uint64_t number = ~std::uint64_t{0};
    Part* part = nullptr;
  };

  void change(const LiveBlock& block, std::int64_t sign) {
    // What may be a mapping of its own is no part of the heap.
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
  // Units from the first to the last of the heap that this part belongs to.
  std::uint64_t reach_of(const Part& part, bool is_of_break) const;

  HeapLayout layout_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Part>> parts_;
  std::map<std::uint64_t, const Part*> of_break_;  // those that have a block
  std::array<Recent, kRecent> recent_;
  std::int64_t extent_bytes_ = 0, chunk_bytes_ = 0;
};

}  // namespace headroom::attribution
