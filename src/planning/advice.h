// What to change first, with what it saves.
#pragma once

#include <string>
#include <vector>

#include "planning/memory_plan.h"

namespace headroom::planning {

struct Advice {
  enum class Kind { start_order, lazy, variant, frames, drop };
  Kind kind = Kind::drop;
  std::string component;               // empty for the start order
  std::vector<std::string> what_ifs;   // the changes as --what-if takes them; empty where it takes none
  std::string words;                   // "YOLO11s with precision int8"
  Bytes saved;                         // of the peak
  Bytes own;                           // what the component itself takes less
  FigureOrigin origin;                 // of the figure
  Verdict verdict = Verdict::healthy;  // with it
};
std::string_view name_of(Advice::Kind kind);

// Changes that lower the peak: those first that reach the best verdict, then by what is lost with them (an
// order of starts costs nothing, a component that is left out most), then by bytes.
std::vector<Advice> advice_for(const MemoryPlan& plan);

}  // namespace headroom::planning
