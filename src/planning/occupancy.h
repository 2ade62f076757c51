// Computes how much memory a set of components needs at a moment. Start order, best set and advice all use
// it. They rely on one property: a larger set never needs less memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "types/budget.h"

namespace headroom::planning {

// The components of a budget as numbers, with their groups, pipelines and dependencies. All needs must be
// resolved (footprints.h).
class Occupancy {
 public:
  enum class SharedPages { counted, excluded };
  explicit Occupancy(const Budget& budget, SharedPages shared_pages = SharedPages::counted);

  std::size_t size() const { return parts_.size(); }
  bool is_lazy(std::size_t i) const { return parts_[i].is_lazy; }
  bool is_started_at_boot(std::size_t i) const { return parts_[i].is_started_at_boot; }
  // True if `members` contains another component of the same group: each member of a group may be loaded
  // while all components outside the group run. Lazy components without a group form one group.
  bool takes_turns(std::size_t i, const std::vector<bool>& members) const;
  const std::vector<std::size_t>& predecessors(std::size_t i) const { return parts_[i].predecessors; }
  const std::vector<std::size_t>& needed(std::size_t i) const { return parts_[i].needed; }

  // All `members` run at their peaks, and `loading` at its load peak replaces the members of its group. In a
  // group only the largest member counts, in a pipeline only the largest transient buffer.
  Bytes at_peak(const std::vector<bool>& members, std::optional<std::size_t> loading = {}) const {
    return sum_of(shares_at_peak(members, loading));
  }
  // All `members` start at the same time. Each is at its load peak or, without waiting, at the larger of its
  // load and run peaks.
  Bytes at_start(const std::vector<bool>& members, StartMode start) const {
    return sum_of(shares_at_start(members, start));
  }
  // The run means of all components, without transient buffers.
  Bytes at_rest() const { return sum_of(shares_at_peak(all(), {}, true)); }

  // The parts of a sum, by component. Shared pages are separate parts. `mean`: as at_rest().
  struct Share {
    std::optional<std::size_t> component;
    std::string shared_key;  // for shared pages, if there is no component
    Bytes bytes;
    bool is_loading = false;
  };
  friend Bytes sum_of(const std::vector<Share>& shares) {
    Bytes sum;
    for (const Share& share : shares) sum += share.bytes;
    return sum;
  }
  std::vector<Share> shares_at_peak(const std::vector<bool>& members, std::optional<std::size_t> loading = {},
                                    bool mean = false) const;
  std::vector<Share> shares_at_start(const std::vector<bool>& members, StartMode start) const;

  std::vector<bool> all() const { return std::vector<bool>(parts_.size(), true); }

 private:
  struct Part {
    Bytes load, run, mean, transient;  // run: with frames, without transient
    std::optional<std::size_t> group, pipeline, shared_by;
    Bytes shared;
    bool is_lazy = false, is_started_at_boot = false;
    std::vector<std::size_t> predecessors, needed;
  };
  // The memory of a component at a moment, and its transient buffer.
  struct Item {
    std::size_t component = 0;
    Bytes bytes, transient;
    bool is_loading = false;
  };
  // Adds up items: the largest member of each group, the largest buffer of each pipeline, shared pages once.
  std::vector<Share> combined(const std::vector<Item>& items) const;
  std::vector<Part> parts_;
  std::size_t groups_ = 0;
  std::size_t pipelines_ = 0;
  std::vector<bool> is_of_one_group_;  // for each pipeline: its grouped members are all of one group
  std::vector<std::string> shared_keys_;
};

}  // namespace headroom::planning
