// The boards and GPUs that `headroom plan` knows.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "types/budget.h"

namespace headroom::planning {

const std::vector<DeviceProfile>& device_profiles();
// Finds a profile such as "orin-nx-16gb". Case does not matter, spaces and underscores count as hyphens, and
// "gb10", "orin-nano-super" and "jetson-…" are other names. The error lists the known devices.
Result<DeviceProfile> device_profile(std::string_view id);

// Plans for this machine with its memory and current use. In a control group with a limit, the group counts
// if it has less memory left. Takes samples for one second and uses the worst: a plan based on a lucky moment
// would be too optimistic. The current use includes the system, so the system's components are removed.
// `words` describes what was measured.
Status use_live_device(Budget& budget, const std::filesystem::path& root, std::string& words);

// Removes the components of the system and returns their names.
std::vector<std::string> take_out_system(Budget& budget);

}  // namespace headroom::planning
