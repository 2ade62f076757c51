// Every figure of a sample by name. Names carry the unit, and a sensor its own: "cpu_percent",
// "ram_used_bytes", "temperature_celsius.cpu-thermal".
#pragma once

#include <functional>
#include <string_view>

#include "types/sample.h"

namespace headroom::monitoring {

// Calls `on_metric` for each figure that the sample has, in an order that does not change. The name is valid
// during the call; nothing is allocated. A throttle alert counts as 1, so that the mean is the share of the
// samples that had it. Cores one by one and processes are left out.
void for_each_metric(const SystemSample& sample,
                     const std::function<void(std::string_view name, double value)>& on_metric);

}  // namespace headroom::monitoring
