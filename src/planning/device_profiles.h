// The boards and GPUs that `headroom plan` knows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "types/budget.h"

namespace headroom::planning {

const std::vector<DeviceProfile>& device_profiles();
// Finds a profile such as "orin-nx-16gb". Case does not matter, and underscores count as hyphens. The error
// lists the known devices.
Result<DeviceProfile> device_profile(std::string_view id);

}  // namespace headroom::planning
