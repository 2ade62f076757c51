// The order of starts with the lowest peak.
//
// The cost of starting component k after the set S is the memory of S at its peaks plus k's load peak. It
// never falls when S grows (occupancy.h). So Lawler's rule for the scheduling problem 1|prec|f_max applies:
// build the order from its end. Among the remaining components without remaining successors, put the one with
// the lowest cost last.
//
// Proof by exchange: take an optimal order of the remaining components and move that component to the end.
// All components that came after it now start with a smaller set before them, so they cost no more. The moved
// component costs no more than the one that was last. Groups and dependencies do not affect the proof. The
// algorithm needs n² sums.
//
// Without groups and dependencies this is the known rule: sort by load peak minus run, largest first.
#pragma once

#include <vector>

#include "planning/occupancy.h"

namespace headroom::planning {

// The highest sum while the components are started one after another in this order.
Bytes peak_of_start(const Occupancy& occupancy, const std::vector<std::size_t>& order);

// The best order of all `members` that are not lazy. Equal components keep the order of the file.
// Dependencies must have no cycle (budget_reader.h rejects cycles).
std::vector<std::size_t> best_start_order(const Occupancy& occupancy, const std::vector<bool>& members);

// Whether any start order of `members` stays within `capacity`. Uses the same rule but is cheaper than the
// best order: every component that fits as the last one can be removed at once.
bool can_start_within(const Occupancy& occupancy, const std::vector<bool>& members, Bytes capacity);

// The order of the file, with the system's components first.
std::vector<std::size_t> given_start_order(const Occupancy& occupancy);

}  // namespace headroom::planning
