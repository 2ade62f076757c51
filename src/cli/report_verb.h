// `headroom report`: views of a finished run.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& report_verb();
int run_report_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
