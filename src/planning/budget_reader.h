// Reads BUDGET.toml: components, device and rules (docs/plan.md).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "types/budget.h"

namespace headroom::planning {

// Parses a budget. `name` is the file name for errors, which name the line.
Result<Budget> parse_budget(std::string_view text, const std::string& name);

// Parses "85%", "85 %" or "0.85" to 0.85. The result is above 0 and at most 1.
Result<double> parse_share(std::string_view text);
// Parses "1920x1080".
Result<FrameBuffers> parse_resolution(std::string_view text);

}  // namespace headroom::planning
