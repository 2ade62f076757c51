// `headroom export`: a recording in the formats of other tools.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& export_verb();
int run_export_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
