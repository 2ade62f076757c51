// Verbs that run another program: `headroom VERB [FLAGS] -- COMMAND …`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/flag_table.h"

namespace headroom::cli {

struct WrappedCommand {
  FlagValues command_line, environment;  // of the verb's flags; the command line wins
  std::vector<std::string> command;      // what stands after --; empty if nothing does

  // The flags of both, as they count.
  FlagValues merged() const;
};

// `example`: how a call begins, for the error about words before --: "headroom trace --".
Result<WrappedCommand> parse_wrapped_command(const Verb& verb, const std::vector<std::string>& arguments,
                                             const char* example);

}  // namespace headroom::cli
