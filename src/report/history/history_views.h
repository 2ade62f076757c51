// A history of runs: its views, and the sides of `headroom history diff` and `gate`.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "comparison/run_metrics.h"
#include "history/run_history.h"
#include "report/comparison/run_diff.h"
#include "report/input/run_input.h"

namespace headroom::report {

inline constexpr int kHistorySchemaVersion = 1;

std::string history_list_to_terminal(const std::vector<history::KeptRun>& runs, bool color, int width);
Json history_list_to_json(const std::vector<history::KeptRun>& runs);

// A metric of one model over commits: the runs of a commit are one point.
struct HistoryPoint {
  std::string commit, label, started_at;  // of its first run
  std::vector<double> values;             // sorted
  double median() const;
};
struct HistorySeries {
  std::string model;                 // "det", or "det on xavier" where the runs are of several machines
  std::vector<HistoryPoint> points;  // in the order in which their first runs were made
};
// `runs` have the one figure each, as RunHistory::figures() gives them.
std::vector<HistorySeries> history_series(const std::vector<history::KeptRun>& runs);

std::string history_plot_to_terminal(const comparison::RunMetric& metric,
                                     const std::vector<HistorySeries>& series, bool color, int width);
// One self-contained page with a chart per model.
std::string history_plot_to_html(const comparison::RunMetric& metric,
                                 const std::vector<HistorySeries>& series);
Json history_plot_to_json(const comparison::RunMetric& metric, const std::vector<HistorySeries>& series);

// The sides of a comparison: new runs and the earlier runs of a history.

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
  HistoryWords words;
};

// Side B: the given runs (paths), or all runs of the newest commit. Side A: the runs before B of the same
// machine, one label and the same models.
Result<HistorySides> sides_of_history(history::RunHistory& history, const std::vector<std::string>& runs,
                                      const EarlierRuns& earlier);

// A run of headroom bench for the history, without its commit and label.
history::KeptRun kept_run(const comparison::ComparedRun& run);

}  // namespace headroom::report
