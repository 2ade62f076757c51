#include "planning/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace headroom::planning {
namespace {

std::vector<std::string> dependencies_of(const BudgetComponent& component) {
  std::vector<std::string> all = component.after;
  all.insert(all.end(), component.needs.begin(), component.needs.end());
  return all;
}

// An error at a component's line.
tl::unexpected<Error> error_at(const Budget& budget, const BudgetComponent& component,
                               const std::string& what, const std::string& fix) {
  return usage_error(fmt::format("{}:{}: {}", budget.name, component.line, what), "", fix);
}

Status check_references(const Budget& budget) {
  std::vector<std::string> names;
  for (const BudgetComponent& component : budget.components) names.push_back(component.name);
  for (const BudgetComponent& component : budget.components) {
    Budget own;  // the component and its dependencies
    own.components = {component};
    for (const std::string& name : dependencies_of(component)) {
      const BudgetComponent* other = find_component(budget, name);
      if (other == nullptr)
        return error_at(budget, component,
                        fmt::format("'{}' depends on '{}', which does not exist", component.name, name),
                        did_you_mean(name, names));
      own.components.push_back(*other);
    }
    if (const std::string why = dependency_conflict(own); !why.empty())
      return error_at(budget, component, why, "remove one of them from its group, or make neither lazy");
  }
  return {};
}

// First removes components whose dependencies are all removed, until none is left or all remaining ones
// depend on each other.
Status check_cycles(const Budget& budget) {
  std::set<std::string> left;
  for (const BudgetComponent& component : budget.components) left.insert(component.name);
  const auto waits_for = [&](const BudgetComponent& component) -> std::optional<std::string> {
    for (const std::string& name : dependencies_of(component))
      if (left.contains(name)) return name;
    return std::nullopt;
  };
  for (bool removed = true; removed;) {
    removed = false;
    for (const BudgetComponent& component : budget.components)
      if (left.contains(component.name) && !waits_for(component)) removed = left.erase(component.name) > 0;
  }
  if (left.empty()) return {};
  // Each remaining component waits for a remaining one, so following "waits for" runs into a cycle.
  std::vector<std::string> path;
  const BudgetComponent* current = find_component(budget, *left.begin());
  while (std::ranges::find(path, current->name) == path.end()) {
    path.push_back(current->name);
    current = find_component(budget, *waits_for(*current));
  }
  std::string words;
  for (auto step = std::ranges::find(path, current->name); step != path.end(); ++step)
    words += fmt::format("'{}' after ", *step);
  return error_at(budget, *current, fmt::format("the start order has a cycle: {}'{}'", words, current->name),
                  "remove one of them from after or needs");
}

}  // namespace

const BudgetComponent* find_component(const Budget& budget, const std::string& name) {
  const auto found = std::ranges::find(budget.components, name, &BudgetComponent::name);
  return found == budget.components.end() ? nullptr : &*found;
}

std::string dependency_conflict(const Budget& budget) {
  for (const BudgetComponent& component : budget.components) {
    for (const auto* list : {&component.after, &component.needs})
      for (const std::string& name : *list) {
        const BudgetComponent* other = find_component(budget, name);
        if (other == nullptr) continue;
        const bool is_needed = list == &component.needs;
        if (other->is_lazy && !component.is_lazy)
          return fmt::format("'{}' starts after '{}', which is lazy and not loaded at the start",
                             component.name, name);
        if (is_needed && other->is_lazy && other->group.empty() && component.group.empty())
          return fmt::format("'{}' needs '{}', but only one lazy component is loaded at a time",
                             component.name, name);
        if (is_needed && !component.group.empty() && component.group == other->group)
          return fmt::format("'{}' needs '{}', but members of a group never run together", component.name,
                             name);
      }
  }
  return {};
}

Status check_dependencies(const Budget& budget) {
  if (auto done = check_references(budget); !done) return done;
  return check_cycles(budget);
}

Status start_dependencies_first(Budget& budget, bool has_order) {
  std::vector<BudgetComponent> ordered, left = budget.components;
  std::set<std::string> started;
  const auto is_started = [&](const std::string& name) { return started.contains(name); };
  while (!left.empty()) {
    const auto next = std::ranges::find_if(left, [&](const BudgetComponent& component) {
      return std::ranges::all_of(dependencies_of(component), is_started);
    });  // exists, because there is no cycle
    if (has_order && next != left.begin())
      return error_at(budget, left.front(),
                      fmt::format("'order' starts '{}' before its dependencies", left.front().name),
                      "change order, or after and needs");
    started.insert(next->name);
    ordered.push_back(std::move(*next));
    left.erase(next);
  }
  budget.components = std::move(ordered);
  return {};
}

}  // namespace headroom::planning
