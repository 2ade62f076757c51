// What `headroom plan` reads beside the budget: measured footprints, and the machine as it is now.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/footprints.h"
#include "types/bench_result.h"
#include "types/budget.h"

namespace headroom::cli {

// The footprints of a file, a run's folder, or a folder of runs (outputs/). Errors: nothing there can be
// read.
Result<std::vector<planning::MeasuredFootprint>> read_footprints(const std::filesystem::path& place);

// Those of all places, and of what the budget's own `footprint = "…"` name, relative to its folder. Where a
// budget names one that is not there, resolving it says so with its line.
Result<std::vector<planning::MeasuredFootprint>> footprints_for(Budget& budget,
                                                                const std::filesystem::path& folder,
                                                                const std::vector<std::string>& places);

// This machine as a device: its memory and what is taken of it now; in a control group with a limit the
// group, where that has less left. Of a second's samples the worst: a plan on top of a lucky moment would be
// too good. `words` says what was measured.
Result<DeviceProfile> live_device(const std::filesystem::path& root, std::string& words);

}  // namespace headroom::cli
