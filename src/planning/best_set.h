// The components of most value that fit together.
//
// Exact, by branch and bound. The peak of a set never falls when the set grows, so a set that is too large
// has no larger one that fits. Two bounds on what can still be added: the sum of the values that are left,
// and what they come to by their own bytes alone, the best value a byte first and the last one in part
// (Dantzig), in the room that the smallest load above a run leaves, as one of them starts last. Members of a
// group count with no bytes there, as they may cost nothing more.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/occupancy.h"

namespace headroom::planning {

struct BestSet {
  std::vector<bool> members;
  double value = 0;
  Bytes peak;             // of the set, in its best start order
  bool is_proven = true;  // false: the search was cut short, and there may be a better one
  bool required_fit =
      true;  // false: what is required does not fit by itself, and is all there is in `members`
};

// What is required is always in it. `most_work` bounds the time and not the figures: components looked at in
// sums, about a second of them; then the best set so far is filled up with what fits beside it, and is not
// proven.
BestSet largest_set(const Budget& budget, const Occupancy& occupancy, Bytes capacity, StartMode start,
                    std::int64_t most_work = 100'000'000);

// The highest sum of a set at any moment: its start in the best order, all running, and each that takes
// turns being loaded while the others run.
Bytes lowest_peak_of(const Occupancy& occupancy, const std::vector<bool>& members, StartMode start);

}  // namespace headroom::planning
