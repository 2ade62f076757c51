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
history::KeptRun kept_run(const comparison::ComparedRun& run);

// Kept runs as a side of a comparison; of `models` alone where it names any.
Result<LoadedSide> side_of(const std::vector<history::KeptRun>& runs,
                           const std::set<std::string>& models = {});

// What a side of kept runs is called, the newest commit first: "the last 10 runs before: 6 of 3333333, 4 of
// 1111111", and of one commit "6 runs of 3333333". Empty for one run, and where none has a commit: there the
// names of the runs say it.
std::string words_of(const std::vector<history::KeptRun>& runs);
// What is to be known of a side of several commits; else empty.
std::string caveat_of(const std::vector<history::KeptRun>& runs);

}  // namespace headroom::cli
