// --tune: which runtime settings are fastest for one model inside the limit, and which are smallest among
// those that are nearly as fast. Each combination is tried in a child of its own, so a combination that runs
// out of memory is only a row in the table.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "model/bench_result.h"
#include "model/runtime_settings.h"

namespace headroom::bench {

struct TuneOutcome {
  RuntimeSettings fastest;                  // the fastest that fits
  std::optional<RuntimeSettings> smallest;  // the smallest peak within 5 % of the fastest
  std::vector<TuneTrial> trials;            // all, in the order in which they were tried
};

// "Nearly as fast" for `smallest`.
inline constexpr double kNearlyAsFast = 1.05;

// Tries one combination; an error ends the search (interrupted), a failing combination is a trial with its
// status.
using TryFunction = std::function<Result<TuneTrial>(const RuntimeSettings&)>;

// Coordinate search: from `start`, one knob after another (threads, arena, extension, memory pattern,
// prepacking, graph level, spinning; on a GPU how convolutions are searched, their workspace, the device's
// arena, capture as a graph), keeping a value when it is at least 1 % faster, or when it is as fast
// and smaller. About a dozen trials where all combinations would be hundreds; a knob's effect hardly depends
// on the others', except that the arena's extension matters only with an arena.
// Where `start` itself runs out of memory, goes over the limit or times out, what saves memory comes first,
// one saving added to the other until a trial fits; where none does, the search ends there. It also ends
// after three trials that timed out, each of which took all of --timeout.
Result<TuneOutcome> search_settings(const RuntimeSettings& start, int cores, const TryFunction& attempt);

}  // namespace headroom::bench
