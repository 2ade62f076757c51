// `headroom history`: runs that are kept, a metric over commits, and a gate against what was before.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& history_verb();
int run_history_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
