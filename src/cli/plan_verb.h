// `headroom plan BUDGET.toml`: does it fit, and what to change.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& plan_verb();
int run_plan_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
