// --tune: finds the fastest runtime settings for one model within the limit, and the smallest among those
// that are nearly as fast. Each combination is tried in a separate child. So a combination that runs out of
// memory is only a row in the table.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "types/bench_result.h"
#include "types/runtime_settings.h"

namespace headroom::bench {

struct TuneOutcome {
  RuntimeSettings fastest;                  // the fastest that fits
  std::optional<RuntimeSettings> smallest;  // the smallest peak within 5 % of the fastest
  std::vector<TuneTrial> trials;            // all trials, in the order of execution
};

// "Nearly as fast" for `smallest`.
inline constexpr double kNearlyAsFast = 1.05;

// Tries one combination. An error (interrupted) ends the search. A failing combination is a trial with its
// status.
using TryFunction = std::function<Result<TuneTrial>(const RuntimeSettings&)>;

// Coordinate search: starts from `start` and changes one setting after another: threads, arena, extension,
// memory pattern, prepacking, graph level, spinning. On a GPU: convolution search, its workspace, the device
// arena, graph capture. It keeps a value that is at least 1 % faster, or as fast and smaller. This takes
// about a dozen trials instead of hundreds for all combinations. A setting's effect hardly depends on the
// others, except that the arena's extension matters only with an arena.
//
// If `start` runs out of memory, exceeds the limit or times out, the search first adds one memory-saving
// setting after another until a trial fits. If none fits, the search ends. It also ends after three trials
// that timed out, because each takes all of --timeout.
Result<TuneOutcome> search_settings(const RuntimeSettings& start, int cores, const TryFunction& attempt);

}  // namespace headroom::bench
