// The comparison of two logs of headroom watch as text and JSON, and its gate. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "comparison/gate.h"
#include "comparison/series_comparison.h"

namespace headroom::report {

struct SeriesDiffReport {
  std::string before, after;  // the files
  const comparison::WatchedLog &a, &b;
  std::vector<comparison::SeriesChange> changes;
  std::vector<comparison::GateFinding> gate = {};  // of --fail-on
  // "B (b.jsonl) has 1 sample", "A (a.jsonl) is damaged after 40 samples".
  std::vector<std::string> problems = {};
  bool is_one_log = false;      // A and B hold the same samples
  bool has_enough = true;       // samples on both sides for a change to be found
  std::string not_judged = {};  // why a gate cannot tell; empty where it can
  std::size_t top = 12;         // rows of the table
};

// `is_one_file`: both names are of one file.
SeriesDiffReport diff_logs(const std::string& before, const comparison::WatchedLog& a,
                           const std::string& after, const comparison::WatchedLog& b, bool is_one_file);

std::string series_diff_to_terminal(const SeriesDiffReport& report, bool color, int width);
std::string series_diff_to_markdown(const SeriesDiffReport& report);
Json series_diff_to_json(const SeriesDiffReport& report);

// The means with their intervals, and as "max:…" the maxima.
std::vector<comparison::GatedFigure> gated_log_figures(const std::vector<comparison::SeriesChange>& changes);

// Checks --fail-on, and adds its findings to the report. If both logs are the same, only rules on B's own
// values are checked.
comparison::GateJudgement judge_logs(SeriesDiffReport& report, std::vector<comparison::FigureRule> rules);

}  // namespace headroom::report
