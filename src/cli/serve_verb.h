// headroom serve.
#pragma once

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& serve_verb();
int run_serve_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
