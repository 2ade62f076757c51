// Finds the most valuable set of components that fits.
//
// The search is exact (branch and bound). The peak of a set never falls when the set grows, so no superset of
// a set that is too large fits.
//
// The upper bound for the remaining components is Dantzig's: take them by value per byte, the last one in
// part, until the capacity is full. Two details:
//   - If components start one after another and none is lazy, one of them must start last, while all others
//   run.
//     So the capacity is first reduced by the smallest load spike (load peak minus run).
//   - Members of a group count with zero bytes, because they may add nothing to the peak.
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

// The set always contains the required components. `most_work` limits the number of additions (one component
// in one sum); the default takes about a second. At the limit, `is_proven` is false. At the end, components
// that still fit are added: those without value, and others if the search was stopped.
BestSet largest_set(const Budget& budget, const Occupancy& occupancy, Bytes capacity, StartMode start,
                    std::int64_t most_work = 100'000'000);

// The peak of a set over all moments: the start in the best order, all running, and each component that takes
// turns being loaded while the others run.
Bytes lowest_peak_of(const Occupancy& occupancy, const std::vector<bool>& members, StartMode start);

}  // namespace headroom::planning
