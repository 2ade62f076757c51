// What a memory snapshot of PyTorch says of each device: what is live and who holds it, what the peak was,
// what lies idle and what is in the way, what leaks, and why an allocation failed.
//
//   auto snapshot = open_snapshot(path);
//   for (const DeviceAnalysis& device : analyze_snapshot(*snapshot, {}))
//
// Two passes over a device's trace, of which the second takes a look at chosen moments. Memory: some 100
// bytes a live block, and what the snapshot itself takes. All figures are defined in
// docs/pytorch-snapshots.md.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "snapshot/allocation_places.h"
#include "snapshot/snapshot.h"
#include "snapshot/snapshot_leaks.h"
#include "snapshot/snapshot_moment.h"
#include "snapshot/snapshot_oom.h"
#include "snapshot/snapshot_replay.h"

namespace headroom::snapshot {

struct PlaceFigures {
  PlaceIndex place;
  std::int64_t live_bytes = 0, live_blocks = 0;       // at the end
  std::int64_t peak_bytes = 0, peak_blocks = 0;       // when most was allocated on the device
  std::int64_t allocations = 0, allocated_bytes = 0;  // in the trace
};

// Stretches of as many entries each; the last may be shorter.
struct SnapshotTimeline {
  std::int64_t entries_per_point = 1;
  struct Point {
    std::int64_t time_us = 0;              // of its first entry
    std::int64_t lowest = 0, highest = 0;  // allocated
    std::int64_t reserved = 0;             // most in the stretch
  };
  std::vector<Point> points;
  // Those that held most at the peak or at the end, and what each held when most was allocated in the
  // stretch; empty where nobody asked.
  std::vector<PlaceIndex> places;
  std::vector<std::vector<std::int64_t>> place_bytes;  // of each point, of each of `places`
};

struct DeviceAnalysis {
  std::int64_t device = 0;
  // At the end, as the snapshot has it.
  std::int64_t segments = 0, reserved_bytes = 0;
  std::int64_t live_bytes = 0, live_blocks = 0;  // in use
  std::int64_t pending_bytes = 0;                // released, but another stream may still use it
  std::int64_t requested_bytes = 0;              // of both, what was asked for
  SnapshotMoment end;
  // Over the trace; without one, those of the end.
  std::int64_t entries = 0, first_time_us = 0, last_time_us = 0;
  std::array<std::int64_t, kActions> actions{};
  std::int64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0;
  std::size_t peak_position = 0;  // after so many entries most was allocated
  DeviceTotals before;            // before the first entry
  std::string doubt;              // why figures of the trace may be off; empty: they are the allocator's own
  AllocationPlaces places;
  std::vector<PlaceFigures> figures;  // of places that hold or held anything, most bytes live first
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
  // Called with each of the moments, in order.
  std::function<void(DeviceAnalysis& device, const SnapshotMoment& moment, const DeviceState& state)> visit =
      {};
};

std::vector<DeviceAnalysis> analyze_snapshot(const Snapshot& snapshot, const SnapshotOptions& options);

}  // namespace headroom::snapshot
