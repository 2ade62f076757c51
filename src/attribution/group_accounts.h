// Accounts of groups of allocations that the caller chooses: by layer, by the names of a stack's functions,
// by module. The analysis has figures for each stack and each layer; what several stacks held together at
// their own fullest moment cannot be made of those.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "attribution/layer_tree.h"
#include "attribution/recording_analysis.h"
#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::attribution {

// Estimated where samples stand for other allocations (docs/trace-report.md).
struct GroupFigures {
  std::int64_t allocations = 0, allocated_bytes = 0;
  LiveFigures live;
  // Live at once, whenever that was; never below live.peak_bytes. Of samples the largest of the estimates,
  // and so too high where small blocks are replaced again and again.
  std::int64_t most_bytes = 0;
  std::int64_t temporary_blocks = 0, temporary_bytes = 0;  // of full recordings only
  std::int64_t released_blocks = 0;                        // whose allocation was recorded, too
  double lived_ns = 0;                                     // the sum over those
  bool sampled = false;                                    // some of it was estimated

  // Of the blocks that were released; what is live at the end has none yet.
  std::optional<Nanoseconds> average_lifetime() const;
};

// The group of what a stack allocates in a layer; asked once for each pair. Groups are numbers from 0.
using Grouping = std::function<std::uint32_t(LayerIndex, StackId)>;

struct GroupAccounts {
  LayerTree layers;                                // those that a Grouping is asked with
  std::vector<std::vector<GroupFigures>> figures;  // [grouping][group]
  bool has_temporary = false;
};

// One pass for all groupings; in each, the sums over its groups are the totals of analyze_recording().
GroupAccounts account_groups(recording::Recording& recording, std::vector<Grouping> groupings);

}  // namespace headroom::attribution
