// Accounts of groups of allocations that the caller chooses: by layer, by function names of a stack, by
// module. The analysis has figures for each stack and layer, but the common peak of several stacks cannot be
// computed from those.
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

// Estimated for samples (docs/trace-report.md).
struct GroupFigures {
  std::int64_t allocations = 0, allocated_bytes = 0;
  LiveFigures live;
  // Most bytes live at once, at any time; at least live.peak_bytes. For samples this is the largest estimate,
  // which is too high if small blocks are replaced again and again.
  std::int64_t most_bytes = 0;
  std::int64_t temporary_blocks = 0, temporary_bytes = 0;  // full recordings only
  std::int64_t released_blocks = 0;                        // blocks with a recorded allocation
  double lived_ns = 0;                                     // sum over these blocks
  bool sampled = false;                                    // some figures are estimates

  // Of released blocks only.
  std::optional<Nanoseconds> average_lifetime() const;
};

// The group of a stack's allocations in a layer, as a number from 0. Called once for each pair, perhaps from
// another thread, while the recording is read. It may use the recording's stacks only after an earlier pass.
using Grouping = std::function<std::uint32_t(LayerIndex, StackId)>;

struct GroupAccounts {
  LayerTree layers;                                // the layers passed to groupings
  std::vector<std::vector<GroupFigures>> figures;  // [grouping][group]
  bool has_temporary = false;
};

// One pass for all groupings. For each, the sums over its groups equal the totals of analyze_recording().
GroupAccounts account_groups(recording::Recording& recording, std::vector<Grouping> groupings);

}  // namespace headroom::attribution
