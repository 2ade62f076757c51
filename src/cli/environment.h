// Flags from the environment: --max-frames is HEADROOM_MAX_FRAMES.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/flag_table.h"

namespace headroom::cli {

// Of a flag by any of its names.
std::string environment_name(std::string_view flag);

// The values that the environment gives for a verb. A wrong value is an error that names the variable; a
// variable with our prefix that no flag has is named in `unknown`.
Result<FlagValues> read_environment(const Verb& verb, std::vector<std::string>& unknown);

}  // namespace headroom::cli
