#include "snapshot/snapshot_analysis.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "types/enum_names.h"

namespace headroom::snapshot {
namespace {

constexpr std::size_t kMostPlacesOfAWay = 3;

class Tally {
 public:
  void add(PlaceIndex place, std::int64_t bytes) {
    PlaceShare& share = by_place_[place.index];
    share.place = place;
    share.bytes += bytes;
    ++share.blocks;
  }
  std::vector<PlaceShare> shares(std::size_t most) const {
    std::vector<PlaceShare> list;
    for (const auto& [index, share] : by_place_) list.push_back(share);
    std::ranges::sort(list, [](const PlaceShare& a, const PlaceShare& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.place < b.place;
    });
    if (list.size() > most) list.resize(most);
    return list;
  }

 private:
  std::unordered_map<std::uint32_t, PlaceShare> by_place_;
};

// Blocks to free.
struct Freed {
  RoomMaker way;
  Tally tally;

  void add(PlaceIndex place, std::int64_t bytes) {
    way.bytes += bytes;
    ++way.blocks;
    tally.add(place, bytes);
  }
  RoomMaker finish() {
    way.places = tally.shares(kMostPlacesOfAWay);
    return std::move(way);
  }
};

class Autopsy {
 public:
  Autopsy(OomAutopsy& oom, const DeviceState& state, AllocationPlaces& places)
      : oom_(oom), state_(state), places_(places) {
    for (const HeldBlock& block : state.blocks)
      place_of_block_.push_back(block.is_live() ? places.of(block.stack, block.requested) : PlaceIndex{});
  }

  void examine() {
    for (const HeldSegment& segment : state_.segments)
      for (const HeldBlock& block : state_.blocks_of(segment)) {
        if (block.state == BlockState::pending_free) oom_.pending_bytes += block.size;
        if (block.is_live()) continue;
        oom_.free_in_segments += block.size;
        ++free_blocks_;
        if (!serves(segment)) continue;
        oom_.fitting_free += block.size;
        oom_.largest_fitting = std::max(oom_.largest_fitting, block.size);
      }
    const auto holders = shares_of(state_, places_);
    oom_.holders = holders;
    oom_.holders.resize(std::min(holders.size(), kMostOomHolders));
    by_defragmenting();
    by_waiting();
    by_fewest_bytes();
    by_one_place(holders);
  }

 private:
  // Whether a free block of the segment could have served the request.
  bool serves(const HeldSegment& segment) const {
    return !segment.in_private_pool && segment.stream == oom_.stream &&
           segment.is_large == (oom_.requested > kTorchSmallRequest);
  }
  std::int64_t missing_on_device() const { return oom_.segment - oom_.device_free; }

  void by_defragmenting() {
    if (oom_.free_in_segments + oom_.device_free < oom_.requested) return;
    oom_.ways.push_back(
        {.by = RoomBy::defragmenting, .bytes = oom_.free_in_segments, .blocks = free_blocks_});
  }

  void by_waiting() {
    if (oom_.pending_bytes == 0) return;
    if (auto way = room_without(
            [&](std::size_t block) { return state_.blocks[block].state == BlockState::pending_free; })) {
      way->by = RoomBy::waiting;
      oom_.ways.push_back(std::move(*way));
    }
  }

  // Places with the fewest bytes first, if freeing them is enough.
  void by_one_place(const std::vector<PlaceShare>& holders) {
    std::size_t found = 0;
    // Each try examines all blocks; 20 million take a tenth of a second.
    constexpr std::size_t kMostTried = 200, kMostLooks = 20'000'000;
    const std::size_t affordable = kMostLooks / std::max<std::size_t>(1, state_.blocks.size());
    const std::size_t tried =
        std::min(holders.size(), std::clamp<std::size_t>(affordable, kMostPlacesOfAWay, kMostTried));
    for (std::size_t i = tried; i > 0 && found < kMostPlacesOfAWay; --i) {
      const PlaceIndex place = holders[i - 1].place;
      auto way = room_without([&](std::size_t block) { return place_of_block_[block] == place; });
      if (!way) continue;
      way->by = RoomBy::one_place;
      oom_.ways.push_back(std::move(*way));
      ++found;
    }
  }

  // What freeing the blocks for which goes(index) holds would take. Nothing if it is not enough.
  template <class Goes>
  std::optional<RoomMaker> room_without(Goes&& goes) const {
    Freed freed;
    std::int64_t given_back = 0;
    for (const HeldSegment& segment : state_.segments) {
      std::int64_t piece = 0;
      const auto end_piece = [&] {
        if (piece >= oom_.requested && serves(segment)) freed.way.as_hole = true;
        given_back += given_back_of(segment, piece);
        piece = 0;
      };
      for (std::size_t i = segment.first_block; i < segment.first_block + segment.block_count; ++i) {
        const HeldBlock& block = state_.blocks[i];
        const bool is_gone = block.is_live() && goes(i);
        if (is_gone) freed.add(place_of_block_[i], block.size);
        if (block.is_live() && !is_gone)
          end_piece();
        else
          piece += block.size;
      }
      end_piece();
    }
    if (freed.way.bytes == 0 || (!freed.way.as_hole && given_back < missing_on_device())) return {};
    return freed.finish();
  }

  // The bytes of a free piece that return to the device: whole segments, and pages of expandable segments.
  static std::int64_t given_back_of(const HeldSegment& segment, std::int64_t piece) {
    if (piece == segment.size) return piece;
    if (!segment.is_expandable) return 0;
    const std::int64_t page = segment.is_large ? kTorchLargePage : kTorchSmallSegment;
    return piece / page * page;
  }

  struct Window {  // of neighbouring blocks
    std::size_t first = 0, end = 0;
    std::int64_t live_bytes = 0;
  };

  // The large enough run of neighbours in one segment with the fewest live bytes.
  std::optional<Window> cheapest_window() const {
    std::optional<Window> best;
    for (const HeldSegment& segment : state_.segments) {
      if (!serves(segment)) continue;
      std::int64_t bytes = 0, live = 0;
      std::size_t first = segment.first_block;
      for (std::size_t i = segment.first_block; i < segment.first_block + segment.block_count; ++i) {
        bytes += state_.blocks[i].size;
        live += state_.blocks[i].is_live() ? state_.blocks[i].size : 0;
        while (bytes - state_.blocks[first].size >= oom_.requested) {
          bytes -= state_.blocks[first].size;
          live -= state_.blocks[first].is_live() ? state_.blocks[first].size : 0;
          ++first;
        }
        if (bytes >= oom_.requested && (!best || live < best->live_bytes)) best = Window{first, i + 1, live};
      }
    }
    return best;
  }

  // Whole segments to return, those with the smallest live share first. Not always the minimum, which is a
  // knapsack problem.
  std::vector<const HeldSegment*> cheapest_segments(std::int64_t& live_bytes) const {
    std::vector<std::pair<double, const HeldSegment*>> order;
    std::unordered_map<const HeldSegment*, std::int64_t> live;
    for (const HeldSegment& segment : state_.segments) {
      std::int64_t bytes = 0;
      for (const HeldBlock& block : state_.blocks_of(segment)) bytes += block.is_live() ? block.size : 0;
      live[&segment] = bytes;
      if (segment.size > 0)
        order.emplace_back(static_cast<double>(bytes) / static_cast<double>(segment.size), &segment);
    }
    std::ranges::sort(order, {},
                      [](const auto& item) { return std::pair(item.first, item.second->address); });
    std::vector<const HeldSegment*> chosen;
    std::int64_t missing = missing_on_device();
    live_bytes = 0;
    for (const auto& [share, segment] : order) {
      if (missing <= 0) break;
      chosen.push_back(segment);
      missing -= segment->size;
      live_bytes += live[segment];
    }
    if (missing > 0) chosen.clear();
    return chosen;
  }

  void by_fewest_bytes() {
    const auto window = cheapest_window();
    std::int64_t segments_live = 0;
    const auto segments = cheapest_segments(segments_live);
    const bool has_segments = !segments.empty();
    if (!window && !has_segments) return;
    Freed freed;
    freed.way.as_hole = window && (!has_segments || window->live_bytes <= segments_live);
    const auto release = [&](std::size_t i) {
      if (state_.blocks[i].is_live()) freed.add(place_of_block_[i], state_.blocks[i].size);
    };
    if (freed.way.as_hole) {
      for (std::size_t i = window->first; i < window->end; ++i) release(i);
    } else {
      for (const HeldSegment* segment : segments)
        for (std::size_t i = 0; i < segment->block_count; ++i) release(segment->first_block + i);
    }
    oom_.ways.push_back(freed.finish());
  }

  OomAutopsy& oom_;
  const DeviceState& state_;
  AllocationPlaces& places_;
  std::vector<PlaceIndex> place_of_block_;
  std::int64_t free_blocks_ = 0;
};

}  // namespace

SnapshotMoment moment_of(const DeviceState& state, const DeviceTotals& totals) {
  SnapshotMoment moment;
  moment.totals = totals;
  moment.segments = static_cast<std::int64_t>(state.segments.size());
  for (const HeldSegment& segment : state.segments) {
    const auto blocks = state.blocks_of(segment);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const HeldBlock& block = blocks[i];
      if (!block.is_live()) {
        moment.free_bytes += block.size;
        moment.largest_free_bytes = std::max(moment.largest_free_bytes, block.size);
        ++moment.holes;
        continue;
      }
      const std::int64_t before = i > 0 && !blocks[i - 1].is_live() ? blocks[i - 1].size : 0;
      const std::int64_t after = i + 1 < blocks.size() && !blocks[i + 1].is_live() ? blocks[i + 1].size : 0;
      if (before + after == 0) continue;
      const std::int64_t piece = before + block.size + after;
      // A blocker must join two free pieces, or empty its segment.
      const bool empties = piece == segment.size;
      if (!empties && (before == 0 || after == 0)) continue;
      if (moment.blocker && moment.blocker->freed_if_gone >= piece) continue;
      moment.blocker = SnapshotBlocker{block, segment.address, segment.size, piece, empties};
    }
  }
  return moment;
}

std::string_view name_of(RoomBy way) {
  return name_in({"defragmenting", "waiting", "one_place", "fewest_bytes"}, way);
}

std::vector<PlaceShare> shares_of(const DeviceState& state, AllocationPlaces& places) {
  Tally tally;
  state.for_each_block([&](const HeldBlock& block) {
    if (block.is_live()) tally.add(places.of(block.stack, block.requested), block.size);
  });
  return tally.shares(~std::size_t{0});
}

OomAutopsy autopsy_of(const TraceEntry& entry, std::int64_t stream, const DeviceState& state,
                      const DeviceTotals& totals, AllocationPlaces& places) {
  OomAutopsy oom{.time_us = entry.time_us,
                 .requested = entry.size,
                 .segment = TorchAllocatorRules::segment_size(entry.size),
                 .device_free = static_cast<std::int64_t>(entry.address),
                 .stream = stream,
                 .stack = entry.stack,
                 .totals = totals};
  Autopsy(oom, state, places).examine();
  return oom;
}

}  // namespace headroom::snapshot
