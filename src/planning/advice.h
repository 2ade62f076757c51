// Advice: which changes lower the peak, and by how much.
#pragma once

#include <string>
#include <vector>

#include "planning/memory_plan.h"

namespace headroom::planning {

struct Advice {
  enum class Kind { start_order, lazy, variant, frames, drop };
  Kind kind = Kind::drop;
  std::string component;               // empty for the start order
  std::vector<std::string> what_ifs;   // the values for --what-if; empty if it does not support the change
  std::string words;                   // "YOLO11s with precision int8"
  Bytes saved;                         // reduction of the peak
  Bytes own;                           // reduction of the component itself
  FigureOrigin origin;                 // source of the figure
  Verdict verdict = Verdict::healthy;  // after the change
};
std::string_view name_of(Advice::Kind kind);

// The changes that lower the peak. The order: the verdict that a change reaches, then its cost for the user,
// then the saved bytes. A new start order costs nothing; dropping a component costs most.
std::vector<Advice> advice_for(const MemoryPlan& plan);

}  // namespace headroom::planning
