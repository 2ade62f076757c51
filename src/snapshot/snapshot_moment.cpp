#include "snapshot/snapshot_moment.h"

#include <algorithm>

namespace headroom::snapshot {

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
      // What is in the way of nothing but itself blocks nothing: it must join two pieces, or empty its
      // segment.
      const bool empties = piece == segment.size;
      if (!empties && (before == 0 || after == 0)) continue;
      if (moment.blocker && moment.blocker->freed_if_gone >= piece) continue;
      moment.blocker = SnapshotBlocker{block, segment.address, segment.size, piece, empties};
    }
  }
  return moment;
}

}  // namespace headroom::snapshot
