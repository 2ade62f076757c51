// The views of a history of runs. Pure: from kept runs to text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "comparison/run_metrics.h"
#include "history/run_history.h"

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
// The first characters, or a dash.
std::string short_commit(const std::string& commit);
// `runs` have the one figure each, as RunHistory::figures() gives them.
std::vector<HistorySeries> history_series(const std::vector<history::KeptRun>& runs);

std::string history_plot_to_terminal(const comparison::RunMetric& metric,
                                     const std::vector<HistorySeries>& series, bool color, int width);
// One self-contained page with a chart per model.
std::string history_plot_to_html(const comparison::RunMetric& metric,
                                 const std::vector<HistorySeries>& series);
Json history_plot_to_json(const comparison::RunMetric& metric, const std::vector<HistorySeries>& series);

}  // namespace headroom::report
