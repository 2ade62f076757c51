// Fills a budget with measured footprints.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "types/budget.h"

namespace headroom::planning {

struct MeasuredFootprint {
  std::string file;  // as shown to the user
  Footprint footprint;
};

// The memory of a process with this model and its runtime. Pages shared with other processes of the same
// runtime are separate (`shared`).
MemoryNeed need_of(const MeasuredFootprint& measured);

// Resolves the keys `model` and `footprint` of components and variants:
// - `model` selects the newest footprint with that name or file name and matching settings. Of repeated
//   measurements it takes the median, on a GPU the largest.
// - `footprint` names a file, or a run's folder in which the component's or model's name is searched.
// Footprints of the same model file with other settings become variants. For a discrete GPU, the GPU figures
// are used. Usage error, with the line: a missing footprint, or one without GPU memory in a plan for a GPU.
Result<Budget> resolve_footprints(Budget budget, const std::vector<MeasuredFootprint>& measured);

}  // namespace headroom::planning
