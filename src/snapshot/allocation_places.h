// Who allocated a block of a snapshot: its stack, or where none was recorded, how much it asked for. (A loop
// asks for the same sizes again and again, so a size is the next best name of a place.)
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "snapshot/snapshot.h"

namespace headroom::snapshot {

struct PlaceIndex {
  std::uint32_t index = 0;
  friend auto operator<=>(const PlaceIndex&, const PlaceIndex&) = default;
};

struct AllocationPlace {
  StackIndex stack;                             // 0: none was recorded
  std::optional<std::int64_t> requested_bytes;  // of a place without a stack
};

class AllocationPlaces {
 public:
  PlaceIndex of(StackIndex stack, std::int64_t requested) {
    const std::uint64_t key =
        stack.index != 0 ? std::uint64_t{stack.index} << 1 : static_cast<std::uint64_t>(requested) << 1 | 1;
    const auto [it, is_new] = known_.emplace(key, static_cast<std::uint32_t>(places_.size()));
    if (is_new) places_.push_back({stack, stack.index != 0 ? std::nullopt : std::optional(requested)});
    return {it->second};
  }
  const AllocationPlace& operator[](PlaceIndex place) const { return places_[place.index]; }
  std::size_t size() const { return places_.size(); }

 private:
  std::vector<AllocationPlace> places_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
};

}  // namespace headroom::snapshot
