// Converts between runs of headroom bench and the runs of a history.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "history/run_history.h"
#include "report/input/run_input.h"

namespace headroom::report {

// The name of the machine that made a run: its board, or else its host name.
std::string host_of(const BenchResult& run);

// The run without its commit and label.
history::KeptRun kept_run(const comparison::ComparedRun& run);

// Kept runs as a side of a comparison; only these `models`, if any are given.
Result<LoadedSide> side_of(const std::vector<history::KeptRun>& runs,
                           const std::set<std::string>& models = {});

// Describes a side of kept runs, the newest commit first: "the last 10 runs before: 6 of 3333333, 4 of
// 1111111", or "6 runs of 3333333". Empty for one run, and for runs without commits: their names are enough.
std::string words_of(const std::vector<history::KeptRun>& runs);
// The caveat of a side with several commits; otherwise empty.
std::string caveat_of(const std::vector<history::KeptRun>& runs);

}  // namespace headroom::report
