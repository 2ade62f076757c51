// The flags of `headroom bench`, and the options they make.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/flag_table.h"
#include "model/bench_options.h"

namespace headroom::cli {

const Verb& bench_verb();

// Checks what single flags cannot: that there is a model and a source, that files exist, that flags do not
// contradict each other. `warnings` receives what was changed (a clamped limit).
Result<BenchOptions> bench_options_from(const FlagValues& values, std::vector<std::string>& warnings);

}  // namespace headroom::cli
