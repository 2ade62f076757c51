// headroom watch.
#pragma once

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& watch_verb();
int run_watch_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
