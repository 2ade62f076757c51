// Between runs of headroom bench and those that a history keeps.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/run_inputs.h"
#include "history/run_history.h"

namespace headroom::cli {

// What a run is called in sentences, and compared by: its board, or else its machine's name.
std::string host_of(const BenchResult& run);

// Without commit and label.
history::KeptRun kept_run(const analysis::ComparedRun& run);

// Kept runs as a side of a comparison; of `models` alone where it names any.
Result<LoadedSide> side_of(const std::vector<history::KeptRun>& runs,
                           const std::set<std::string>& models = {});

}  // namespace headroom::cli
