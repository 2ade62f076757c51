#include "planning/start_order.h"

#include <algorithm>

namespace headroom::planning {
namespace {

std::vector<bool> without_lazy(const Occupancy& occupancy, std::vector<bool> members) {
  for (std::size_t i = 0; i < members.size(); ++i)
    if (occupancy.is_lazy(i)) members[i] = false;
  return members;
}

// For each component: whether another one of `left` must start after it.
std::vector<bool> with_successors(const Occupancy& occupancy, const std::vector<bool>& left) {
  std::vector<bool> has_successor(left.size(), false);
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left[i])
      for (const std::size_t predecessor : occupancy.predecessors(i)) has_successor[predecessor] = true;
  return has_successor;
}

}  // namespace

Bytes peak_of_start(const Occupancy& occupancy, const std::vector<std::size_t>& order) {
  std::vector<bool> started(occupancy.size(), false);
  Bytes peak;
  for (const std::size_t next : order) {
    peak = std::max(peak, occupancy.at_peak(started, next));
    started[next] = true;
  }
  return std::max(peak, occupancy.at_peak(started));
}

bool can_start_within(const Occupancy& occupancy, const std::vector<bool>& members, Bytes capacity) {
  std::vector<bool> left = without_lazy(occupancy, members);
  while (std::find(left.begin(), left.end(), true) != left.end()) {
    bool is_shorter = false;
    const std::vector<bool> has_successor = with_successors(occupancy, left);
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!left[i] || has_successor[i]) continue;
      left[i] = false;
      if (occupancy.at_peak(left, i) <= capacity)
        is_shorter = true;
      else
        left[i] = true;
    }
    if (!is_shorter) return false;
  }
  return true;
}

std::vector<std::size_t> best_start_order(const Occupancy& occupancy, const std::vector<bool>& members) {
  std::vector<bool> left = without_lazy(occupancy, members);
  std::vector<std::size_t> reversed;
  const auto count = static_cast<std::size_t>(std::count(left.begin(), left.end(), true));
  while (reversed.size() < count) {
    const std::vector<bool> has_successor = with_successors(occupancy, left);
    std::optional<std::size_t> last;
    Bytes least;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!left[i] || has_successor[i]) continue;
      left[i] = false;
      const Bytes cost = occupancy.at_peak(left, i);
      left[i] = true;
      if (last && cost > least) continue;
      last = i;
      least = cost;
    }
    if (!last) break;  // a cycle
    left[*last] = false;
    reversed.push_back(*last);
  }
  return {reversed.rbegin(), reversed.rend()};
}

std::vector<std::size_t> given_start_order(const Occupancy& occupancy) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < occupancy.size(); ++i)
    if (!occupancy.is_lazy(i)) order.push_back(i);
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return occupancy.is_started_at_boot(i); });
  return order;
}

}  // namespace headroom::planning
