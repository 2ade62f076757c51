#include "planning/best_set.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "base/text.h"

namespace headroom::planning {
namespace {

constexpr double kRounding = 1e-9;

// A name with one of these words, or its plural, is of memory that other components use.
constexpr std::string_view kBufferWords[] = {"buffer",  "overhead", "reserve",   "margin", "headroom",
                                             "context", "cache",    "workspace", "spare",  "misc"};

bool names_buffer(const std::string& name) {
  std::string words = to_lower(name);
  for (char& letter : words)
    if (letter >= 0 && std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = ' ';
  return std::ranges::any_of(split_words(words), [](std::string_view word) {
    if (word.ends_with('s')) word.remove_suffix(1);
    return std::ranges::find(kBufferWords, word) != std::end(kBufferWords);
  });
}

class Search {
 public:
  Search(const Budget& budget, const Occupancy& occupancy, Bytes capacity, StartMode start,
         std::int64_t most_work)
      : budget_(budget), occupancy_(occupancy), capacity_(capacity), start_(start), work_left_(most_work) {
    best_.members.assign(budget.components.size(), false);
    for (const BudgetComponent& component : budget.components) is_buffer_.push_back(is_buffer(component));
    for (std::size_t i = 0; i < budget.components.size(); ++i)
      if (is_kept(budget.components[i])) require(i);
    for (std::size_t i = 0; i < budget.components.size(); ++i)
      if (lacks_buffer(best_.members, i)) require(i);
    chosen_ = best_.members;
    best_.peak = lowest_peak_of(occupancy_, chosen_, start_);
    best_.required_fit = best_.peak <= capacity_;
    best_.value = value_of(chosen_);
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      own_.push_back(own_bytes(i));
      if (chosen_[i] || (value(i) <= 0 && !is_needed(i) && !is_buffer_[i])) continue;
      open_.push_back(i);
      values_are_whole_ = values_are_whole_ && value(i) == std::floor(value(i));
    }
    // Sort by value per byte: this finds good sets early, and Dantzig's bound needs this order.
    std::ranges::stable_sort(open_, [&](std::size_t a, std::size_t b) {
      // Components without bytes come first. The products alone would make a component without bytes and
      // value equal to all others, which is not a valid ordering.
      if ((own_[a] == 0) != (own_[b] == 0)) return own_[a] == 0;
      if (own_[a] == 0) return value(a) > value(b);
      return value(a) * static_cast<double>(own_[b]) > value(b) * static_cast<double>(own_[a]);
    });
  }

  BestSet run() {
    if (!best_.required_fit) return best_;
    visit(0, best_.value);
    fill();
    best_.peak = lowest_peak_of(occupancy_, best_.members, start_);
    return best_;
  }

 private:
  double value(std::size_t i) const { return budget_.components[i].value; }
  double value_of(const std::vector<bool>& set) const {
    double sum = 0;
    for (std::size_t i = 0; i < set.size(); ++i)
      if (set[i]) sum += value(i);
    return sum;
  }
  // The bytes that the component adds to any set at least. In a group, beside a larger member, it adds
  // nothing.
  std::int64_t own_bytes(std::size_t i) const {
    const BudgetComponent& component = budget_.components[i];
    if (occupancy_.takes_turns(i, occupancy_.all())) return 0;
    return (component.need.run_peak.value_or(Bytes{}) + component.need.frame_bytes()).count;
  }
  // A component without value may be a dependency of others.
  bool is_needed(std::size_t i) const {
    for (std::size_t other = 0; other < occupancy_.size(); ++other)
      if (std::ranges::find(occupancy_.needed(other), i) != occupancy_.needed(other).end()) return true;
    return false;
  }
  // A buffer whose component is in the set is in it, too.
  bool lacks_buffer(const std::vector<bool>& set, std::size_t i) const {
    return !set[i] && is_buffer_[i] &&
           std::ranges::all_of(occupancy_.needed(i), [&](std::size_t needed) { return set[needed]; });
  }
  bool has_its_buffers(const std::vector<bool>& set) const {
    for (std::size_t i = 0; i < set.size(); ++i)
      if (lacks_buffer(set, i)) return false;
    return true;
  }
  void require(std::size_t i) {
    if (best_.members[i]) return;
    best_.members[i] = true;
    for (const std::size_t needed : occupancy_.needed(i)) require(needed);
  }

  // Upper bound of the value of all sets that add some of open_[from…].
  double bound(std::size_t from, double value_so_far) const {
    auto free_bytes = static_cast<double>((capacity_ - occupancy_.at_peak(chosen_)).count);
    for (std::size_t at = from; at < open_.size(); ++at) {
      const auto bytes = static_cast<double>(own_[open_[at]]);
      if (bytes > free_bytes)
        return value_so_far + (bytes > 0 ? value(open_[at]) * std::max(0.0, free_bytes) / bytes : 0);
      free_bytes -= bytes;
      value_so_far += value(open_[at]);
    }
    return value_so_far;
  }

  void visit(std::size_t from, double value_so_far) {
    if (work_left_ <= 0) {
      best_.is_proven = false;
      return;
    }
    work_left_ -= sum_work();
    if (from == open_.size()) {
      keep(value_so_far);
      return;
    }
    double most = bound(from, value_so_far);
    if (values_are_whole_) most = std::floor(most + kRounding);
    if (from > 0 && most <= best_.value + kRounding) return;
    const std::size_t next = open_[from];
    chosen_[next] = true;
    if (fits()) visit(from + 1, value_so_far + value(next));
    chosen_[next] = false;
    visit(from + 1, value_so_far);
  }

  // The work of one sum over all components.
  std::int64_t sum_work() const { return static_cast<std::int64_t>(chosen_.size()); }

  // Checks the cheap sums first, and searches a start order only if they all fit.
  bool fits() {
    work_left_ -= sum_work();
    if (occupancy_.at_peak(chosen_) > capacity_) return false;
    std::vector<bool> started = chosen_;
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      if (!chosen_[i]) continue;
      const bool is_lazy = occupancy_.is_lazy(i);
      if (is_lazy) started[i] = false;
      if (!is_lazy && !occupancy_.takes_turns(i, chosen_)) continue;
      work_left_ -= sum_work();
      if (occupancy_.at_peak(chosen_, i) > capacity_) return false;
    }
    work_left_ -= sum_work() * sum_work();
    return start_ == StartMode::in_order ? can_start_within(occupancy_, started, capacity_)
                                         : occupancy_.at_start(started, start_) <= capacity_;
  }

  // Adds components that still fit: those without value, and others if the search was stopped.
  void fill() {
    chosen_ = best_.members;
    for (bool grew = true; grew;) {
      grew = false;
      for (std::size_t i = 0; i < chosen_.size(); ++i) {
        const auto& needed = occupancy_.needed(i);
        if (chosen_[i] || !std::ranges::all_of(needed, [&](std::size_t n) { return chosen_[n]; })) continue;
        chosen_[i] = true;
        if (has_its_buffers(chosen_) && fits())
          grew = true;
        else
          chosen_[i] = false;
      }
    }
    best_.members = chosen_;
    best_.value = value_of(chosen_);
  }

  void keep(double value_so_far) {
    if (!has_its_buffers(chosen_)) return;
    for (std::size_t i = 0; i < chosen_.size(); ++i)
      if (chosen_[i])
        for (const std::size_t needed : occupancy_.needed(i))
          if (!chosen_[needed]) return;
    if (value_so_far <= best_.value + kRounding) return;
    best_.members = chosen_;
    best_.value = value_so_far;
  }

  const Budget& budget_;
  const Occupancy& occupancy_;
  const Bytes capacity_;
  const StartMode start_;
  std::int64_t work_left_;  // in components summed
  bool values_are_whole_ = true;
  std::vector<bool> is_buffer_;
  std::vector<std::int64_t> own_;  // own_bytes() of each
  std::vector<std::size_t> open_;
  std::vector<bool> chosen_;
  BestSet best_;
};

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

bool is_buffer(const BudgetComponent& component) {
  const bool has_only_frames = component.need.run_peak == Bytes{} && !component.need.frames.empty();
  return has_only_frames || names_buffer(component.name);
}

bool is_kept(const BudgetComponent& component) {
  return component.is_system || component.is_required || (is_buffer(component) && component.needs.empty());
}

Bytes lowest_peak_of(const Occupancy& occupancy, const std::vector<bool>& members, StartMode start) {
  const std::vector<bool> started = without_lazy(occupancy, members);
  Bytes peak = start == StartMode::in_order ? peak_of_start(occupancy, best_start_order(occupancy, started))
                                            : occupancy.at_start(started, start);
  peak = std::max(peak, occupancy.at_peak(members));  // including lazy components
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i] && (occupancy.takes_turns(i, members) || occupancy.is_lazy(i)))
      peak = std::max(peak, occupancy.at_peak(members, i));
  return peak;
}

BestSet largest_set(const Budget& budget, const Occupancy& occupancy, Bytes capacity, StartMode start,
                    std::int64_t most_work) {
  return Search(budget, occupancy, capacity, start, most_work).run();
}

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
  while (std::ranges::find(left, true) != left.end()) {
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
  const auto count = static_cast<std::size_t>(std::ranges::count(left, true));
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
