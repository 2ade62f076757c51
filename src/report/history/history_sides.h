// The sides of `headroom history diff` and `gate`: new runs and the earlier runs of a history.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "history/run_history.h"
#include "report/input/run_input.h"

namespace headroom::report {

inline constexpr const char* kNoLabel = "none";  // of --label, for runs without one

// " with the label 'main'".
std::string label_words(const std::string& label);

// The runs that the history has, by key_of() today: earlier versions stored another key.
Result<std::map<std::string, history::KeptRun>> kept_already(history::RunHistory& history,
                                                             const comparison::Side& runs);

// What the user chose for side A.
struct EarlierRuns {
  std::int64_t last = 10;  // at most as many runs
  std::optional<std::string> label, host, commit;
  std::string current_commit;  // of the given runs, which side A excludes
};

struct HistorySides {
  LoadedSide before, after;
  std::string before_words, after_words;  // empty: the names of the runs
  std::string caveat;
};

// Side B: the given runs (paths), or all runs of the newest commit. Side A: the runs before B of the same
// machine, one label and the same models.
Result<HistorySides> sides_of_history(history::RunHistory& history, const std::vector<std::string>& runs,
                                      const EarlierRuns& earlier);

// Converts between runs of headroom bench and the runs of a history.
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
