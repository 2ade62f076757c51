// The sides of `headroom history diff` and `gate`: new runs and the earlier runs of a history.
#pragma once

#include <map>
#include <optional>
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

}  // namespace headroom::report
