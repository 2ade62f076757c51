// Measured footprints in a budget.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/budget.h"
#include "model/footprint.h"

namespace headroom::planning {

struct MeasuredFootprint {
  std::string file;  // as it is told
  Footprint footprint;
};

// What a process with this model takes, with its runtime: the pages that it has in common with others of the
// same runtime apart.
MemoryNeed need_of(const MeasuredFootprint& measured);
// What it takes of a GPU with memory of its own; nothing where it did not run on one.
std::optional<MemoryNeed> gpu_need_of(const MeasuredFootprint& measured);

// Fills in what is named by `model` (the newest of that name, of that file name, and of the settings that the
// variant or component says; of those that were measured several times alike the median, on a GPU the
// largest) and `footprint` (a file, or a run's folder and the component's or model's name). Footprints of the
// same model file with other settings become variants. For a GPU with memory of its own it is what they took
// of a GPU. Usage error, with the line: a footprint that is not there, or has no GPU's memory where that is
// planned.
Result<Budget> resolve_footprints(Budget budget, const std::vector<MeasuredFootprint>& measured);

}  // namespace headroom::planning
