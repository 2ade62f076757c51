// Flags from the environment: --max-frames is HEADROOM_MAX_FRAMES.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/flag_table.h"

namespace headroom::cli {

// The variable of a flag's name or alias.
std::string environment_name(std::string_view flag);

// The values of a verb's flags in the environment. An invalid value is an error that names the variable.
// `unknown` receives the variables with Headroom's prefix that belong to no flag.
Result<FlagValues> read_environment(const Verb& verb, std::vector<std::string>& unknown);

// Removes the variables of a verb's flags, for child processes.
void forget_environment(const Verb& verb);

}  // namespace headroom::cli
