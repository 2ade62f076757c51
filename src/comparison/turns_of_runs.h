// Runs that were measured in step (headroom bench --in-step): frame i of a run of A and frame i of its
// partner of B were made one behind the other, on the same machine in the same state. So the ratio of the two
// is what B is slower by, and what the machine did to both is no part of it. Pure; docs/diff.md tells the
// rules.
#pragma once

#include <optional>

#include "comparison/metric_change.h"
#include "comparison/two_sample.h"

namespace headroom::comparison {

// The change of `latency` by the turns: of each pair of runs the median of ln(B / A) over its turns.
struct ChangeByTurns {
  double before = 0;      // ns: the median of A over the turns; of several pairs the geometric mean of theirs
  Difference difference;  // of the logarithms
  // The pairs themselves tell what they differ by, as there are three or more; else that is allowed for.
  bool spread_was_measured = false;
};

// Absent unless every run of both sides has its partner on the other one, and thirty turns or more with it.
std::optional<ChangeByTurns> change_by_turns(const RunsOfModel& before, const RunsOfModel& after,
                                             double confidence);

}  // namespace headroom::comparison
