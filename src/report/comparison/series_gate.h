// --fail-on for a comparison of two logs of headroom watch. Pure.
#pragma once

#include <vector>

#include "comparison/figure_gate.h"
#include "comparison/watched_log.h"
#include "report/comparison/series_diff_views.h"

namespace headroom::report {

// The figures that --fail-on takes: the means, which have an interval, and as "max:…" the maxima.
std::vector<comparison::GatedFigure> gated_log_figures(const std::vector<comparison::SeriesChange>& changes);

// What is beyond its limit; puts it into the report, too. Of a log that is compared with itself only its own
// values are judged.
comparison::GateJudgement judge_logs(SeriesDiffReport& report, std::vector<comparison::FigureRule> rules,
                                     const comparison::WatchedLog& a, const comparison::WatchedLog& b);

}  // namespace headroom::report
