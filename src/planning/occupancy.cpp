#include "planning/occupancy.h"

#include <algorithm>

namespace headroom::planning {
namespace {

// The number of `name` in `names`; new names are added.
std::optional<std::size_t> number_of(const std::string& name, std::vector<std::string>& names) {
  if (name.empty()) return std::nullopt;
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

bool is_boot_component(const BudgetComponent& component) {
  return component.is_system && component.after.empty() && component.needs.empty();
}

}  // namespace

Occupancy::Occupancy(const Budget& budget, SharedPages shared_pages) {
  // The group of lazy components without a group: they take turns with each other. The name " " cannot occur
  // in a budget.
  const std::string on_demand = " ";
  std::vector<std::string> groups, pipelines;
  for (const BudgetComponent& component : budget.components) {
    const MemoryNeed& need = component.need;
    Part part;
    part.run = need.run_peak.value_or(Bytes{}) + need.frame_bytes();
    part.mean = need.run_mean.value_or(Bytes{}) + need.frame_bytes();
    part.load = need.load_peak.value_or(Bytes{});
    part.transient = need.transient;
    part.group =
        number_of(component.group.empty() && component.is_lazy ? on_demand : component.group, groups);
    part.pipeline = number_of(component.pipeline, pipelines);
    if (shared_pages == SharedPages::counted) {
      part.shared_by = number_of(need.shared_key, shared_keys_);
      part.shared = need.shared;
    }
    part.is_lazy = component.is_lazy;
    const auto numbers_of = [&](const std::vector<std::string>& names, std::vector<std::size_t>& numbers) {
      for (const std::string& name : names)
        for (std::size_t i = 0; i < budget.components.size(); ++i)
          if (budget.components[i].name == name) numbers.push_back(i);
    };
    numbers_of(component.after, part.predecessors);
    numbers_of(component.needs, part.predecessors);
    numbers_of(component.needs, part.needed);
    // The system runs before any component starts.
    part.is_started_at_boot = is_boot_component(component);
    for (std::size_t i = 0; i < budget.components.size() && !component.is_system; ++i)
      if (is_boot_component(budget.components[i])) part.predecessors.push_back(i);
    parts_.push_back(std::move(part));
  }
  groups_ = groups.size();
  pipelines_ = pipelines.size();
  // If a pipeline has members of several groups, the largest member of one group and the buffer of another
  // can be in memory together.
  is_of_one_group_.assign(pipelines_, true);
  std::vector<std::optional<std::size_t>> group_of(pipelines_);
  for (const Part& part : parts_) {
    if (!part.pipeline || !part.group) continue;
    auto& group = group_of[*part.pipeline];
    if (group && group != part.group) is_of_one_group_[*part.pipeline] = false;
    group = part.group;
  }
}

bool Occupancy::takes_turns(std::size_t i, const std::vector<bool>& members) const {
  if (!parts_[i].group) return false;
  for (std::size_t other = 0; other < parts_.size(); ++other)
    if (other != i && members[other] && parts_[other].group == parts_[i].group) return true;
  return false;
}

std::vector<Occupancy::Share> Occupancy::combined(const std::vector<Item>& items) const {
  std::vector<Share> result;
  std::vector<std::optional<Share>> of_group(groups_), of_pipeline(pipelines_);
  std::vector<Bytes> shared(shared_keys_.size());
  const auto keep_larger = [](std::optional<Share>& kept, const Share& share) {
    if (!kept || share.bytes > kept->bytes) kept = share;
  };
  // First the buffers of components without a group, and of pipelines with several groups.
  for (const Item& item : items) {
    const Part& part = parts_[item.component];
    if (part.shared_by) shared[*part.shared_by] = std::max(shared[*part.shared_by], part.shared);
    if (part.pipeline && (!part.group || !is_of_one_group_[*part.pipeline]))
      keep_larger(of_pipeline[*part.pipeline], {item.component, {}, item.transient, false});
  }
  for (const Item& item : items) {
    const Part& part = parts_[item.component];
    Share share{item.component, {}, item.bytes, item.is_loading};
    if (!part.pipeline) {
      share.bytes += item.transient;
    } else if (part.group && is_of_one_group_[*part.pipeline]) {
      // A group member's buffer counts by the amount that exceeds the other buffers of the pipeline.
      const auto& others = of_pipeline[*part.pipeline];
      share.bytes += std::max(Bytes{}, item.transient - (others ? others->bytes : Bytes{}));
    }
    if (part.group)
      keep_larger(of_group[*part.group], share);
    else
      result.push_back(std::move(share));
  }
  for (const auto& share : of_group)
    if (share) result.push_back(*share);
  for (const auto& transient : of_pipeline) {
    if (!transient || transient->bytes == Bytes{}) continue;
    const auto own = std::ranges::find_if(
        result, [&](const Share& share) { return share.component == transient->component; });
    if (own != result.end())
      own->bytes += transient->bytes;
    else
      result.push_back(*transient);  // its component is not the largest member of its group
  }
  for (std::size_t key = 0; key < shared.size(); ++key)
    if (shared[key] > Bytes{}) result.push_back({{}, shared_keys_[key], shared[key], false});
  return result;
}

std::vector<Occupancy::Share> Occupancy::shares_at_peak(const std::vector<bool>& members,
                                                        std::optional<std::size_t> loading, bool mean) const {
  std::vector<Item> items;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const bool is_loading = loading == i;
    if (!members[i] && !is_loading) continue;
    // The other members of its group are unloaded while it loads.
    if (loading && !is_loading && part.group && part.group == parts_[*loading].group) continue;
    if (is_loading)
      items.push_back({i, part.load, {}, true});
    else
      items.push_back({i, mean ? part.mean : part.run, mean ? Bytes{} : part.transient, false});
  }
  return combined(items);
}

std::vector<Occupancy::Share> Occupancy::shares_at_start(const std::vector<bool>& members,
                                                         StartMode start) const {
  std::vector<Item> items;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!members[i]) continue;
    const Part& part = parts_[i];
    // Together: all wait until the last one is loaded, like the models of a parallel bench. Without waiting:
    // each may be at the larger of both peaks, and its buffer counts by the amount above that.
    const bool is_loading = start == StartMode::together || part.load >= part.run;
    const Bytes bytes = is_loading ? part.load : part.run;
    const Bytes transient =
        start == StartMode::together ? Bytes{} : std::max(Bytes{}, part.run + part.transient - bytes);
    items.push_back({i, bytes, transient, is_loading && transient == Bytes{}});
  }
  return combined(items);
}

}  // namespace headroom::planning
