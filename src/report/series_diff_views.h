// The views of a comparison of two logs of headroom watch. Pure.
#pragma once

#include <string>
#include <vector>

#include "analysis/metric_gate.h"
#include "analysis/series_comparison.h"
#include "base/json.h"

namespace headroom::report {

struct SeriesDiffReport {
  std::string before, after;  // the files
  const analysis::LogFigures &a, &b;
  const std::vector<analysis::SeriesChange>& changes;
  std::vector<analysis::GateFinding> gate;  // of --fail-on
  std::size_t top = 12;                     // rows of the table
};

std::string series_diff_to_terminal(const SeriesDiffReport& report, bool color, int width);
std::string series_diff_to_markdown(const SeriesDiffReport& report);
Json series_diff_to_json(const SeriesDiffReport& report);

}  // namespace headroom::report
