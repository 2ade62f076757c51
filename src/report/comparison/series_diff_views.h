// The views of a comparison of two logs of headroom watch. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "comparison/metric_gate.h"
#include "comparison/series_comparison.h"

namespace headroom::report {

struct SeriesDiffReport {
  std::string before, after;  // the files
  const comparison::LogFigures &a, &b;
  const std::vector<comparison::SeriesChange>& changes;
  std::vector<comparison::GateFinding> gate;  // of --fail-on
  // What is wrong with the logs: "B (b.jsonl) has 1 sample", "A (a.jsonl) is damaged after 40 samples".
  std::vector<std::string> problems = {};
  bool is_one_log = false;      // A and B hold the same samples
  bool has_enough = true;       // samples on both sides for something to be told as the same
  std::string not_judged = {};  // why a gate cannot tell; empty where it can
  std::size_t top = 12;         // rows of the table
};

std::string series_diff_to_terminal(const SeriesDiffReport& report, bool color, int width);
std::string series_diff_to_markdown(const SeriesDiffReport& report);
// Why a figure is not known to be as it was: "RAM used has a trend (it rises by …)". Of one with a doubt.
std::string doubt_words(const comparison::SeriesChange& change);
Json series_diff_to_json(const SeriesDiffReport& report);

}  // namespace headroom::report
