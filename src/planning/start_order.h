// The order of starts with the lowest peak.
//
// The cost of starting k when the set S has been started is what S takes at its peaks plus k's load peak: it
// never falls when S grows (occupancy.h). So Lawler's rule for 1|prec|f_max holds: build the order from its
// end; of the components that nobody left has to wait for, the one that costs least as the last goes last.
// Proof by exchange: take a best order of what is left and move that component to its end. All that came
// after it now start with a smaller set before them, so cost no more; it itself costs no more than the one
// that was last. Groups and dependencies do not disturb it, and n² sums suffice.
// Without groups and dependencies this is the known rule: by load peak minus run, largest first.
#pragma once

#include <vector>

#include "planning/occupancy.h"

namespace headroom::planning {

// The highest sum while the components are started one after another in this order.
Bytes peak_of_start(const Occupancy& occupancy, const std::vector<std::size_t>& order);

// Of all `members` that are not lazy; among equals the order of the file is kept. Dependencies must have no
// cycle (budget_reader.h refuses them).
std::vector<std::size_t> best_start_order(const Occupancy& occupancy, const std::vector<bool>& members);

// Whether some order of them stays within `capacity`. Of the same rule, and cheaper than the best order:
// whatever can go last can go last at once.
bool can_start_within(const Occupancy& occupancy, const std::vector<bool>& members, Bytes capacity);

// As the file has them, the system's own first.
std::vector<std::size_t> given_start_order(const Occupancy& occupancy);

}  // namespace headroom::planning
