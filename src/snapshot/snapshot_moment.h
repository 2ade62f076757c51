// How the memory of a device lies at one moment of a snapshot's trace: what is free inside its segments, in
// how many pieces, and which allocation is in the way.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "snapshot/snapshot_replay.h"

namespace headroom::snapshot {

// The allocation without which most free memory would be in one piece: itself and the free blocks beside it.
struct SnapshotBlocker {
  HeldBlock block;
  std::uint64_t segment_address = 0;
  std::int64_t segment_bytes = 0;
  std::int64_t freed_if_gone = 0;  // the piece that would be there
  bool empties_segment = false;    // its segment could then be given back
};

struct SnapshotMoment {
  std::size_t position = 0;  // after so many entries
  std::int64_t time_us = 0;  // of the last of them; 0 where no times were recorded
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

SnapshotMoment moment_of(const DeviceState& state, const DeviceTotals& totals);

}  // namespace headroom::snapshot
