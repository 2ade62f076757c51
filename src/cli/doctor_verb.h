// headroom doctor: causes and cures, out of logs and of what Headroom recorded.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& doctor_verb();
int run_doctor_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
