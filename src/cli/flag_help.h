// Help, the man page and completions, all from the flag table.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

// `headroom -h`: the verbs and three examples, within 24 lines of 80 columns.
std::string program_help(const std::vector<const Verb*>& verbs);
// `headroom VERB -h`: usage, common flags, examples, within 24 lines of 80 columns.
std::string short_help(const Verb& verb);
// `headroom VERB --help`, `headroom help VERB`: everything.
std::string long_help(const Verb& verb);

// `headroom generate man`: a roff page.
std::string man_page(const std::vector<const Verb*>& verbs);
// `headroom generate bash|zsh|fish`.
std::string bash_completion(const std::vector<const Verb*>& verbs);
std::string zsh_completion(const std::vector<const Verb*>& verbs);
std::string fish_completion(const std::vector<const Verb*>& verbs);

}  // namespace headroom::cli
