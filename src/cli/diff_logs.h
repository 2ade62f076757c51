// `headroom diff A.jsonl B.jsonl`: what differs between two logs of headroom watch.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/flag_table.h"

namespace headroom::cli {

// Prints the view that the flags ask for; returns the exit code.
Result<int> diff_logs(const std::string& before, const std::string& after, const FlagValues& values);

}  // namespace headroom::cli
