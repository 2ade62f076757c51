// `headroom symbols`: gathers what a recording's names come from, to be read on another machine.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& symbols_verb();
int run_symbols_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
