// The autopsy of an allocation that failed: what held the device's memory then, and what would have made
// room.
//
// PyTorch serves a request from a free block of its own pool (requests up to 1 MiB have one, larger ones
// another; each stream and each private pool has its own), else from a new segment, which is 2 MiB, 20 MiB or
// the request in steps of 2 MiB. Before it gives up it has given back all segments in which nothing is live.
// So there would have been room with a hole of the request's size in a fitting segment, or with as much free
// on the device as the segment takes. Both are tried out here on the state of that moment.
#pragma once

#include <cstdint>
#include <vector>

#include "snapshot/allocation_places.h"
#include "snapshot/snapshot_replay.h"

namespace headroom::snapshot {

struct PlaceShare {
  PlaceIndex place;
  std::int64_t bytes = 0, blocks = 0;
};

enum class RoomBy {
  defragmenting,  // nothing was missing: the free pieces together are enough
  waiting,        // blocks were released and waited for another stream
  one_place,      // had what one place holds been released
  fewest_bytes,   // the least live memory whose release makes room, of all places
};
// "defragmenting", …: as in JSON.
std::string_view name_of(RoomBy way);

struct RoomMaker {
  RoomBy by = RoomBy::fewest_bytes;
  std::int64_t bytes = 0;          // that would have to go, or that lie in pieces
  std::int64_t blocks = 0;         // how many those are
  bool as_hole = false;            // the room is in a segment; else on the device, by segments given back
  std::vector<PlaceShare> places;  // whose they are, most bytes first
};

struct OomAutopsy {
  std::size_t position = 0;  // of the entry
  std::int64_t time_us = 0;
  std::int64_t requested = 0;    // rounded up
  std::int64_t segment = 0;      // that the driver was asked for
  std::int64_t device_free = 0;  // of the device, as the driver told
  std::int64_t stream = 0;
  StackIndex stack;  // that asked
  DeviceTotals totals;
  std::int64_t free_in_segments = 0;  // of the device, of any pool and stream
  std::int64_t fitting_free = 0;      // of this, in segments that may serve the request
  std::int64_t largest_fitting = 0;   // in one piece
  std::int64_t pending_bytes = 0;     // released, waiting for another stream
  std::vector<PlaceShare> holders;    // live bytes by place, most first; at most kMostOomHolders
  std::vector<RoomMaker> ways;
};
inline constexpr std::size_t kMostOomHolders = 10;

// `state` is that before the entry.
OomAutopsy autopsy_of(const TraceEntry& entry, std::int64_t stream, const DeviceState& state,
                      const DeviceTotals& totals, AllocationPlaces& places);

// Live bytes by place, most first.
std::vector<PlaceShare> shares_of(const DeviceState& state, AllocationPlaces& places);

}  // namespace headroom::snapshot
