// The flags of `headroom bench`, and the options they make.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/flag_table.h"
#include "cli/verbs.h"
#include "types/bench_options.h"

namespace headroom::cli {

// Puts stronger values over others. One spelling of a setting replaces the other: --gpu-mem-limit-gb on the
// command line a mem-limit in the file.
void override_with(FlagValues& values, const FlagValues& stronger);

// For --dump-config: a file's relative paths are relative to the file, so what is dumped must hold none.
void make_paths_absolute(FlagValues& values);

// Checks what single flags cannot: that there is a source and a model that can be read, that flags do not
// contradict each other. `warnings` receives what was changed (a clamped limit) and what is unwise.
Result<BenchOptions> bench_options_from(const FlagValues& values, std::vector<std::string>& warnings);

}  // namespace headroom::cli
