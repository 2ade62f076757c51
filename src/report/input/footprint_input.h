// Reads measured footprints (footprints/NAME.json of a run).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/footprints.h"
#include "types/budget.h"
#include "types/footprint.h"

namespace headroom::report {

Result<Footprint> read_footprint(const std::filesystem::path& file);

// The footprints of a file, a run's folder, or a folder of runs (outputs/). Fails if one cannot be read, or
// if there is none.
Result<std::vector<planning::MeasuredFootprint>> read_footprints(const std::filesystem::path& place);

// The footprints of all places, and those that the budget itself names (`footprint = "…"`), relative to its
// folder. A missing one is reported later, when the budget is resolved, with its line.
Result<std::vector<planning::MeasuredFootprint>> footprints_for(Budget& budget,
                                                                const std::filesystem::path& folder,
                                                                const std::vector<std::string>& places);

}  // namespace headroom::report
