// `headroom help` and `headroom generate`.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& help_verb();
int run_help_verb(const std::vector<std::string>& arguments);
const Verb& generate_verb();
int run_generate_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
