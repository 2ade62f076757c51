// How much memory a set of components takes at a moment. Everything else (start order, largest set, advice)
// asks here, and rests on one property: a larger set never takes less.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/budget.h"

namespace headroom::planning {

// The components of a budget by number, with their groups, pipelines and dependencies as numbers. All needs
// must be known (footprints.h).
class Occupancy {
 public:
  enum class CommonPages { counted, left_out };
  explicit Occupancy(const Budget& budget, CommonPages common_pages = CommonPages::counted);

  std::size_t size() const { return parts_.size(); }
  bool is_lazy(std::size_t i) const { return parts_[i].is_lazy; }
  bool is_there_from_boot(std::size_t i) const { return parts_[i].is_there_from_boot; }
  // Of several members of a group in a set each may be loaded while all others run; lazy components without a
  // group of their own are one.
  bool takes_turns(std::size_t i, const std::vector<bool>& members) const;
  const std::vector<std::size_t>& predecessors(std::size_t i) const { return parts_[i].predecessors; }
  const std::vector<std::size_t>& needed(std::size_t i) const { return parts_[i].needed; }

  // All of `members` running at their peaks, with `loading` at its load peak in place of the members of its
  // group. Of a group the largest member counts, of a pipeline the largest transient buffer.
  Bytes at_peak(const std::vector<bool>& members, std::optional<std::size_t> loading = {}) const;
  // All of `members` started at the same time: each loading, or, where none waits for another, at the larger
  // of what it takes to load and to run.
  Bytes at_start(const std::vector<bool>& members, StartMode start) const;
  // Run means, without transient buffers.
  Bytes at_rest(const std::vector<bool>& members) const;

  // The parts of a sum, by component; pages in common stand apart.
  struct Share {
    std::optional<std::size_t> component;
    std::string shared_key;  // where there is no component
    Bytes bytes;
    bool is_loading = false;
  };
  std::vector<Share> shares_at_peak(const std::vector<bool>& members,
                                    std::optional<std::size_t> loading = {}) const;
  std::vector<Share> shares_at_start(const std::vector<bool>& members, StartMode start) const;

  std::vector<bool> all() const { return std::vector<bool>(parts_.size(), true); }

 private:
  struct Part {
    Bytes load, run, mean, transient;  // run: with frames, without transient
    std::optional<std::size_t> group, pipeline, shared_by;
    Bytes shared;
    bool is_lazy = false, is_there_from_boot = false;
    std::vector<std::size_t> predecessors, needed;
  };
  // What a component takes at a moment, and the buffer that it has beside that.
  struct Item {
    std::size_t component = 0;
    Bytes bytes, transient;
    bool is_loading = false;
  };
  // Of a group the largest, of a pipeline the largest buffer; pages in common once.
  std::vector<Share> combined(const std::vector<Item>& items) const;
  std::vector<Share> shares(const std::vector<bool>& members, std::optional<std::size_t> loading,
                            bool mean) const;
  std::vector<bool> pipelines_of_one_group() const;
  std::vector<Part> parts_;
  std::size_t groups_ = 0;
  std::size_t pipelines_ = 0;
  std::vector<bool> is_of_one_group_;  // pipelines: of all groups only the members of one are in it
  std::vector<std::string> shared_keys_;
};

Bytes sum_of(const std::vector<Occupancy::Share>& shares);

}  // namespace headroom::planning
