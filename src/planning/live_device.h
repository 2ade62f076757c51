// This machine as a device to plan for.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "types/budget.h"

namespace headroom::planning {

// The machine's memory and its current use. In a control group with a limit, the group counts if it has less
// memory left. Takes samples for one second and uses the worst: a plan based on a lucky moment would be too
// optimistic. `words` describes what was measured.
Result<DeviceProfile> live_device(const std::filesystem::path& root, std::string& words);

}  // namespace headroom::planning
