// Finds the most valuable set of components that fits.
//
// The search is exact (branch and bound). The peak of a set never falls when the set grows, so no superset of
// a set that is too large fits.
//
// The upper bound for the remaining components is Dantzig's: take them by value per byte, the last one in
// part, until the capacity is full. Two details:
// - If components start one after another and none is lazy, one must start last, while all others run. So the
//   capacity is first reduced by the smallest load spike (load peak minus run).
// - Members of a group count with zero bytes, because they may add nothing to the peak.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/occupancy.h"

namespace headroom::planning {

// Whether the component is memory that others use: it consists of frames only, or its name has a word such as
// "buffer", "overhead" or "context". Leaving it out alone would save nothing.
bool is_buffer(const BudgetComponent& component);
// Whether each set contains it: the system, required components, and buffers that belong to no component.
bool is_kept(const BudgetComponent& component);

struct BestSet {
  std::vector<bool> members;
  double value = 0;
  Bytes peak;             // of the set, in its best start order
  bool is_proven = true;  // false: the search was stopped, and a better set may exist
  // False: the components that each set contains do not fit. Then `members` contains only them.
  bool required_fit = true;
};

// The set always contains what is_kept(), and the buffers of its components. `most_work` limits the number of
// additions (one component in one sum); the default takes about a second. At the limit, `is_proven` is false.
// At the end, components that still fit are added: those without value, and others if the search was stopped.
BestSet largest_set(const Budget& budget, const Occupancy& occupancy, Bytes capacity, StartMode start,
                    std::int64_t most_work = 100'000'000);

// The peak of a set over all moments: the start in the best order, all running, and each component that takes
// turns being loaded while the others run.
Bytes lowest_peak_of(const Occupancy& occupancy, const std::vector<bool>& members, StartMode start);

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
