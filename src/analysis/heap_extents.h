// How far the heap reaches and how much of that lies in holes, after every event and to 16 KiB: so the
// moments when either was largest are known without sorting the live blocks at each (heap_fragmentation.h).
//
// Counts, by unit of 16 KiB, the blocks that begin or end there. An extent reaches from a unit with any to
// the last one that is less than kLargestHole from the one before. Only a unit that gets its first block or
// loses its last one looks for its neighbours: of units of a page, where blocks are as large as pages, every
// second would. Memory: 2.1 KiB for 8 MiB of heap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "analysis/glibc_chunk.h"
#include "analysis/live_block.h"

namespace headroom::analysis {

// Half of the 64 MiB that glibc reserves for a thread's arena: what is further apart is not one heap.
inline constexpr std::uint64_t kLargestHole = 32 << 20;

class HeapExtents {
 public:
  static constexpr std::uint64_t kUnit = 16 << 10;  // bytes

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
  static constexpr std::uint64_t kUnitsOfAPart = 512, kReach = kLargestHole / kUnit;
  // 128 GiB of heap; a damaged file has blocks everywhere, and what lies further is left out.
  static constexpr std::size_t kMostParts = 1 << 14;
  static constexpr std::size_t kRecent = 512;  // of 4 GiB of heap

  struct Part {
    std::array<std::uint64_t, kUnitsOfAPart / 64> used{};  // a bit for each unit with a block
    std::array<std::uint32_t, kUnitsOfAPart> blocks{};
  };
  struct Recent {
    std::uint64_t number = ~std::uint64_t{0};
    Part* part = nullptr;
  };

  void change(const LiveBlock& block, std::int64_t sign) {
    // What may be a mapping of its own is no part of the heap.
    if (block.size >= kMappingThreshold &&
        (block.size >= kLargestHole || can_be_own_mapping(block.address, block.size)))
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
    part->used[unit % kUnitsOfAPart / 64] ^= std::uint64_t{1} << unit % 64;
    link(unit, sign);
  }

  Part* part_of(std::uint64_t number, bool make) {
    Recent& recent = recent_[number % kRecent];
    if (recent.number == number) return recent.part;
    Part* part = find_part(number, make);
    if (part != nullptr) recent = {number, part};
    return part;
  }

  Part* find_part(std::uint64_t number, bool make);
  void link(std::uint64_t unit, std::int64_t sign);
  // The nearest unit with a block, less than kReach away.
  std::optional<std::uint64_t> before(std::uint64_t unit);
  std::optional<std::uint64_t> after(std::uint64_t unit);

  std::unordered_map<std::uint64_t, std::unique_ptr<Part>> parts_;
  std::array<Recent, kRecent> recent_;
  std::int64_t extent_bytes_ = 0, chunk_bytes_ = 0;
};

}  // namespace headroom::analysis
