// headroom top.
#pragma once

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& top_verb();
int run_top_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
