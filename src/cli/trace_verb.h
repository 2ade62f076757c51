// `headroom trace`: record where every byte of a program went.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"
#include "trace/trace_options.h"

namespace headroom::cli {

const Verb& trace_verb();
// From the words after "trace"; those after "--" are the command's.
Result<trace::TraceOptions> trace_options_from(const std::vector<std::string>& arguments);
int run_trace_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
