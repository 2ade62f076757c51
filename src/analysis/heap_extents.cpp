#include "analysis/heap_extents.h"

#include <bit>

namespace headroom::analysis {

HeapExtents::Part* HeapExtents::find_part(std::uint64_t number, bool make) {
  const auto found = parts_.find(number);
  if (found != parts_.end()) return found->second.get();
  if (!make || parts_.size() >= kMostParts) return nullptr;
  return parts_.emplace(number, std::make_unique<Part>()).first->second.get();
}

void HeapExtents::link(std::uint64_t unit, std::int64_t sign) {
  const auto left = before(unit), right = after(unit);
  const bool joins = left && right && *right - *left < kReach;  // what is one extent without this unit, too
  std::uint64_t units = 0;
  if (!joins) {
    if (left) units += unit - *left;
    if (right) units += *right - unit;
    // Alone it is an extent of one; between two that it joins they were two, of one more each.
    if (!left && !right) units = 1;
    if (left && right) --units;
  }
  extent_bytes_ += sign * static_cast<std::int64_t>(units * kUnit);
}

std::optional<std::uint64_t> HeapExtents::before(std::uint64_t unit) {
  for (std::uint64_t word = unit / 64, looked = 0; looked <= kReach / 64; --word, ++looked) {
    const Part* part = part_of(word / (kUnitsOfAPart / 64), false);
    if (part == nullptr) {  // to the first word of the part
      const std::uint64_t rest = word % (kUnitsOfAPart / 64);
      word -= rest;
      looked += rest;
      if (word == 0) break;
      continue;
    }
    std::uint64_t bits = part->used[word % (kUnitsOfAPart / 64)];
    if (word == unit / 64) bits &= (std::uint64_t{1} << unit % 64) - 1;
    if (bits != 0) {
      const std::uint64_t found = word * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(bits));
      return unit - found < kReach ? std::optional(found) : std::nullopt;
    }
    if (word == 0) break;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> HeapExtents::after(std::uint64_t unit) {
  for (std::uint64_t word = unit / 64, looked = 0; looked <= kReach / 64; ++word, ++looked) {
    const Part* part = part_of(word / (kUnitsOfAPart / 64), false);
    if (part == nullptr) {  // to the last word of the part
      const std::uint64_t rest = kUnitsOfAPart / 64 - 1 - word % (kUnitsOfAPart / 64);
      word += rest;
      looked += rest;
      continue;
    }
    std::uint64_t bits = part->used[word % (kUnitsOfAPart / 64)];
    if (word == unit / 64) bits &= ~std::uint64_t{0} << unit % 64 << 1;
    if (bits != 0) {
      const std::uint64_t found = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
      return found - unit < kReach ? std::optional(found) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace headroom::analysis
