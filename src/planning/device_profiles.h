// Boards and GPUs that plans are made for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/budget.h"

namespace headroom::planning {

const std::vector<DeviceProfile>& device_profiles();
// "orin-nx-16gb"; case and underscores do not matter. The error lists what is known.
Result<DeviceProfile> device_profile(std::string_view id);

}  // namespace headroom::planning
