// Help, the man page and completions, all from the flag table.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

// Columns of the help: those of the terminal, 80 where standard output is none; no more than are read well.
int help_width();
// `headroom -h`: the verbs and an example, within 24 lines of 80 columns.
std::string program_help(const std::vector<const Verb*>& verbs, int width = help_width());
// `headroom VERB -h`: usage, common flags, examples, within 24 lines of 80 columns.
std::string short_help(const Verb& verb, int width = help_width());
// `headroom VERB --help`, `headroom help VERB`: everything.
std::string long_help(const Verb& verb, int width = help_width());

// `headroom generate man`: a roff page.
std::string man_page(const std::vector<const Verb*>& verbs);
// `headroom generate bash`.
std::string bash_completion(const std::vector<const Verb*>& verbs);

}  // namespace headroom::cli
