// Analyzes a memory snapshot of PyTorch, for each device: live memory by place, the peak, fragmentation,
// leaks, and the reasons of failed allocations.
//
//   auto snapshot = open_snapshot(path);
//   for (const DeviceAnalysis& device : analyze_snapshot(*snapshot, {}))
//
// Makes two passes over a device's trace; the second one examines chosen moments. Memory: about 100 bytes per
// live block, in addition to the snapshot. docs/pytorch-snapshots.md defines all figures.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attribution/cycle_leaks.h"
#include "snapshot/snapshot.h"
#include "snapshot/snapshot_replay.h"

namespace headroom::snapshot {

// The allocation whose removal would give the largest free piece: the block and the free blocks beside it.
struct SnapshotBlocker {
  HeldBlock block;
  std::uint64_t segment_address = 0;
  std::int64_t segment_bytes = 0;
  std::int64_t freed_if_gone = 0;  // size of that piece
  bool empties_segment = false;    // its segment could then be returned
};

struct SnapshotMoment {
  std::size_t position = 0;  // number of applied entries
  std::int64_t time_us = 0;  // of the last entry; 0 if not recorded
  DeviceTotals totals;
  std::int64_t segments = 0;
  std::int64_t free_bytes = 0;          // in segments, between blocks
  std::int64_t largest_free_bytes = 0;  // in one piece
  std::int64_t holes = 0;
  std::optional<SnapshotBlocker> blocker;

  double external() const {
    return totals.reserved > 0 ? static_cast<double>(free_bytes) / static_cast<double>(totals.reserved) : 0;
  }
  std::int64_t rounding_bytes() const { return totals.active - totals.requested; }
};

struct PlaceGrowth {
  PlaceIndex place;
  monitoring::Growth growth = monitoring::Growth::unknown;
  double bytes_per_window = 0;
  std::int64_t first_bytes = 0, last_bytes = 0;   // floors of the first and the last window
  std::int64_t late_bytes = 0;                    // growth of the floor after the warm-up
  std::int64_t allocations = 0, live_blocks = 0;  // in the trace; at its end
};

struct SnapshotLeaks {
  monitoring::Growth growth = monitoring::Growth::unknown;
  std::int64_t windows = 0, warm_up_windows = 0;
  std::int64_t entries_per_window = 0;
  double bytes_per_window = 0;  // of the leaking places
  std::int64_t late_bytes = 0;
  std::vector<std::int64_t> floor_bytes;  // of the device, window by window
  std::vector<PlaceGrowth> places;        // leaking or grown places, the fastest first
};

struct PlaceShare {
  PlaceIndex place;
  std::int64_t bytes = 0, blocks = 0;
};

// How an allocation that failed could have succeeded.
//
// PyTorch serves a request from a free block of its own pool: requests up to 1 MiB have a pool, larger ones
// another, and each stream and private pool has its own. Otherwise it creates a segment of 2 MiB, 20 MiB, or
// the request in steps of 2 MiB. Before it fails, it returns all segments without live blocks. So the request
// would have succeeded with a hole of its size in a fitting segment, or with enough free memory on the device
// for the segment. The analysis tries both on the state at that moment.
enum class RoomBy {
  defragmenting,  // the free pieces together are enough
  waiting,        // freed blocks wait for another stream
  one_place,      // freeing the memory of one place
  fewest_bytes,   // freeing the least live memory, of any place
};
// "defragmenting", …: the names in JSON.
std::string_view name_of(RoomBy way);

struct RoomMaker {
  RoomBy by = RoomBy::fewest_bytes;
  std::int64_t bytes = 0;   // to free, or in free pieces
  std::int64_t blocks = 0;  // their number
  bool as_hole = false;     // the space is in a segment; otherwise on the device, from returned segments
  std::vector<PlaceShare> places = {};  // of these bytes, largest first
};

struct OomAutopsy {
  std::size_t position = 0;  // of the entry
  std::int64_t time_us = 0;
  std::int64_t requested = 0;    // rounded up
  std::int64_t segment = 0;      // requested from the driver
  std::int64_t device_free = 0;  // on the device, from the driver
  std::int64_t stream = 0;
  StackIndex stack;  // of the request
  DeviceTotals totals;
  std::int64_t free_in_segments = 0;     // in all pools and streams
  std::int64_t fitting_free = 0;         // the part in segments that may serve the request
  std::int64_t largest_fitting = 0;      // in one piece
  std::int64_t pending_bytes = 0;        // freed, waiting for another stream
  std::vector<PlaceShare> holders = {};  // live bytes by place, largest first; at most kMostOomHolders
  std::vector<RoomMaker> ways = {};
};
inline constexpr std::size_t kMostOomHolders = 10;

SnapshotMoment moment_of(const DeviceState& state, const DeviceTotals& totals);

// `state`: before the entry.
OomAutopsy autopsy_of(const TraceEntry& entry, std::int64_t stream, const DeviceState& state,
                      const DeviceTotals& totals, AllocationPlaces& places);

// Live bytes by place, largest first.
std::vector<PlaceShare> shares_of(const DeviceState& state, AllocationPlaces& places);

struct PlaceFigures {
  PlaceIndex place;
  std::int64_t live_bytes = 0, live_blocks = 0;       // at the end
  std::int64_t peak_bytes = 0, peak_blocks = 0;       // at the device's peak
  std::int64_t allocations = 0, allocated_bytes = 0;  // in the trace
};

// Points of equally many entries; the last may have fewer.
struct SnapshotTimeline {
  std::int64_t entries_per_point = 1;
  struct Point {
    std::int64_t time_us = 0;              // of its first entry
    std::int64_t lowest = 0, highest = 0;  // allocated
    std::int64_t reserved = 0;             // maximum
  };
  std::vector<Point> points;
  // The largest places at the peak or at the end, and their bytes at each point's highest moment. Empty
  // unless requested.
  std::vector<PlaceIndex> places;
  std::vector<std::vector<std::int64_t>> place_bytes;  // of each point, of each of `places`
};

struct DeviceAnalysis {
  std::int64_t device = 0;
  // At the end, from the snapshot.
  std::int64_t segments = 0, reserved_bytes = 0;
  std::int64_t live_bytes = 0, live_blocks = 0;  // in use
  std::int64_t pending_bytes = 0;                // freed, but another stream may still use it
  std::int64_t requested_bytes = 0;              // requested bytes of both
  SnapshotMoment end;
  // Over the trace; without a trace, those of the end.
  std::int64_t entries = 0, first_time_us = 0, last_time_us = 0;
  std::array<std::int64_t, kActions> actions{};
  std::int64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0;
  std::size_t peak_position = 0;  // number of entries before the peak
  DeviceTotals before;            // before the first entry
  std::string doubt;              // why figures of the trace may be wrong; empty: they equal the allocator's
  AllocationPlaces places;
  std::vector<PlaceFigures> figures;  // of non-empty places, most live bytes first
  SnapshotTimeline timeline;
  std::vector<SnapshotMoment> moments;  // spread over the trace, with the peak and the end
  std::size_t worst = 0;                // of `moments`: with most free bytes in segments
  std::size_t peak = 0;                 // of `moments`
  SnapshotLeaks leaks;
  std::int64_t oom_count = 0;
  std::vector<OomAutopsy> ooms;  // the first, at most kMostOoms
};
inline constexpr std::size_t kMostOoms = 16;

struct SnapshotOptions {
  std::size_t timeline_points = 1000;
  std::size_t moments = 48;
  std::size_t timeline_places = 0;
  // Called for each moment, in order.
  std::function<void(DeviceAnalysis& device, const SnapshotMoment& moment, const DeviceState& state)> visit =
      {};
};

std::vector<DeviceAnalysis> analyze_snapshot(const Snapshot& snapshot, const SnapshotOptions& options);

}  // namespace headroom::snapshot
