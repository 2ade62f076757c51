// `headroom diff A.hrec B.hrec`: what changed from one recording to another.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& diff_verb();
int run_diff_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
