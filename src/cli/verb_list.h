// The list of verbs.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

struct VerbEntry {
  Verb verb;
  // Returns the exit code: 0 fine, 1 a gate failed, 2 wrong use or unreadable input, 3 internal fault.
  int (*run)(const std::vector<std::string>& arguments);
};

const std::vector<VerbEntry>& verb_list();

}  // namespace headroom::cli
