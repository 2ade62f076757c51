// The dependencies between the components of a budget: `after` and `needs`.
#pragma once

#include <string>

#include "base/result.h"
#include "types/budget.h"

namespace headroom::planning {

// nullptr if the budget has no such component.
const BudgetComponent* find_component(const Budget& budget, const std::string& name);

// Describes a dependency that cannot hold: the other component takes turns with this one, or is not loaded in
// time. Empty if there is none.
std::string dependency_conflict(const Budget& budget);

// Usage error, with the line: a dependency that is missing or cannot hold, or a cycle.
Status check_dependencies(const Budget& budget);

// Components start in the order of the file. Dependencies are moved before the components that need them.
// With an explicit `order` in the file, a wrong order is a usage error instead. Needs check_dependencies().
Status start_dependencies_first(Budget& budget, bool has_order);

}  // namespace headroom::planning
