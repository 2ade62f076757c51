// A budget otherwise: --what-if 'yolo.precision=int8'.
//
//   COMPONENT.FIELD=VALUE  memory, load_peak, run_mean, run_peak, transient (sizes), frames (a resolution),
//                          frame_count, value, group, pipeline, model, footprint; precision, backend, input,
//                          batch take the component's variant of that setting
//   drop=COMPONENT         is left out, with what needs it
//   lazy=COMPONENT         is loaded on demand, in turns with the other lazy ones
#pragma once

#include <string>

#include "base/result.h"
#include "model/budget.h"

namespace headroom::planning {

// Usage error: what cannot be understood, or names what there is not.
Result<Budget> with_change(Budget budget, const std::string& change);

// Two of which one needs the other though they take turns, or is not there in time, in words; empty if there
// are none.
std::string why_not_together(const Budget& budget);

// The parts of a change, for those who make them.
Budget without_component(Budget budget, const std::string& name);
Budget with_variant(Budget budget, std::size_t component, const BudgetVariant& variant);

}  // namespace headroom::planning
