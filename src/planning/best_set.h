// Finds the most valuable set of components that fits.
//
// The search is exact (branch and bound). The peak of a set never falls when the set grows, so no superset of
// a set that is too large fits.
//
// The upper bound for the remaining components is Dantzig's: take them by value per byte, the last one in
// part, until the capacity is full. If components start one after another, the capacity is first reduced by
// the smallest load spike (load peak minus run), because one component must start last. Members of a group
// count with zero bytes, because they may add nothing to the peak.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/occupancy.h"

namespace headroom::planning {

struct BestSet {
  std::vector<bool> members;
  double value = 0;
  Bytes peak;             // of the set, in its best start order
  bool is_proven = true;  // false: the search was stopped, and a better set may exist
  // False: the required components alone do not fit. Then `members` contains only them.
  bool required_fit = true;
};

// The set always contains the required components. `most_work` limits the work: the number of components
// added up in sums (the default takes about a second). At the limit, the best set so far is filled with
// components that still fit, and `is_proven` is false.
BestSet largest_set(const Budget& budget, const Occupancy& occupancy, Bytes capacity, StartMode start,
                    std::int64_t most_work = 100'000'000);

// The peak of a set over all moments: the start in the best order, all running, and each component that takes
// turns being loaded while the others run.
Bytes lowest_peak_of(const Occupancy& occupancy, const std::vector<bool>& members, StartMode start);

}  // namespace headroom::planning
