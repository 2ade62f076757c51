// Changes a budget as --what-if describes, for example 'yolo.precision=int8'.
//
//   COMPONENT.FIELD=VALUE  memory, load_peak, run_mean, run_peak, transient (sizes), frames (a resolution),
//                          frame_count, value, group, pipeline, model, footprint; precision, backend, input,
//                          batch select the component's variant with that setting
//   drop=COMPONENT         removes the component and all components that need it
//   lazy=COMPONENT         loads the component on demand; of the lazy components without a group, only one is
//                          loaded at a time
#pragma once

#include <string>

#include "base/result.h"
#include "types/budget.h"

namespace headroom::planning {

// Usage error: invalid syntax, or an unknown component or field.
Result<Budget> with_change(Budget budget, const std::string& change);

// Describes a dependency that cannot hold: the other component takes turns with this one, or is not loaded in
// time. Empty if there is none.
std::string dependency_conflict(const Budget& budget);

// Single changes, for callers that create them directly.
Budget without_component(Budget budget, const std::string& name);
Budget with_variant(Budget budget, std::size_t component, const BudgetVariant& variant);

}  // namespace headroom::planning
