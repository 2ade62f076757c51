// `headroom run`: any command under a limit.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/conductor/limited_command.h"
#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& run_verb();
// What the arguments ask for; errors are the person's.
Result<bench::RunLimitedOptions> run_options_from(const std::vector<std::string>& arguments);
int run_run_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
