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
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planning/memory_plan.h"
#include "types/budget.h"

namespace headroom::planning {

// Usage error: invalid syntax, or an unknown component or field.
Result<Budget> with_change(Budget budget, const std::string& change);

// Advice: which changes lower the peak, and by how much.
struct Advice {
  enum class Kind { start_order, lazy, variant, frames, drop };
  Kind kind = Kind::drop;
  std::string component{};              // empty for the start order
  std::vector<std::string> what_ifs{};  // the values for --what-if; empty if it does not support the change
  std::string words{};                  // "YOLO11s with precision int8"
  Bytes saved{};                        // reduction of the peak
  Bytes own{};                          // reduction of the component itself
  FigureOrigin origin{};                // source of the figure
  Verdict verdict = Verdict::healthy;   // after the change
};
std::string_view name_of(Advice::Kind kind);

// The changes that lower the peak. The order: the verdict that a change reaches, then its cost for the user,
// then the saved bytes. A new start order costs nothing; dropping a component costs most.
std::vector<Advice> advice_for(const MemoryPlan& plan);

}  // namespace headroom::planning
