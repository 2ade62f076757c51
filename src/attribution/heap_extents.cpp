#include "attribution/heap_extents.h"

#include <algorithm>
#include <bit>

namespace headroom::attribution {

HeapExtents::Part* HeapExtents::find_part(std::uint64_t number, bool make) {
  const auto found = parts_.find(number);
  if (found != parts_.end()) return found->second.get();
  if (!make || parts_.size() >= kMostParts) return nullptr;
  return parts_.emplace(number, std::make_unique<Part>()).first->second.get();
}

void HeapExtents::toggle(Part& part, std::uint64_t unit) {
  const std::uint64_t number = unit / kUnitsOfAPart;
  const bool is_of_break = layout_.is_stretch_of_break(number);
  const std::uint64_t before = reach_of(part, is_of_break);
  const bool was_used = part.used_units > 0;
  toggle_in_part(part, static_cast<std::uint32_t>(unit % kUnitsOfAPart));
  if (is_of_break && was_used != (part.used_units > 0)) {
    if (was_used)
      of_break_.erase(number);
    else
      of_break_.emplace(number, &part);
  }
  extent_bytes_ += static_cast<std::int64_t>((reach_of(part, is_of_break) - before) * kUnit);
}

void HeapExtents::toggle_in_part(Part& part, std::uint32_t index) {
  const auto word_of = [&](std::uint32_t unit) { return part.used[unit / 64]; };
  part.used[index / 64] ^= std::uint64_t{1} << index % 64;
  if ((word_of(index) >> index % 64 & 1) != 0) {
    part.first = part.used_units == 0 ? index : std::min(part.first, index);
    part.last = part.used_units == 0 ? index : std::max(part.last, index);
    ++part.used_units;
    return;
  }
  if (--part.used_units == 0) return;
  // There is another one, so each search ends.
  if (index == part.first) {
    std::uint32_t at = index / 64 * 64;
    while (word_of(at) == 0) at += 64;
    part.first = at + static_cast<std::uint32_t>(std::countr_zero(word_of(at)));
  }
  if (index == part.last) {
    std::uint32_t at = index / 64 * 64;
    while (word_of(at) == 0) at -= 64;
    part.last = at + 63 - static_cast<std::uint32_t>(std::countl_zero(word_of(at)));
  }
}

std::uint64_t HeapExtents::reach_of(const Part& part, bool is_of_break) const {
  if (!is_of_break) return part.used_units > 0 ? part.last - part.first + 1 : 0;
  if (of_break_.empty()) return 0;
  const auto& [first, lowest] = *of_break_.begin();
  const auto& [last, highest] = *of_break_.rbegin();
  return (last - first) * kUnitsOfAPart + highest->last - lowest->first + 1;
}

}  // namespace headroom::attribution
