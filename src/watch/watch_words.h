// The summaries of a watch as text.
#pragma once

#include <span>
#include <string>

#include "monitoring/series_summary.h"
#include "types/sample.h"

namespace headroom::watch {

// One row per metric: minimum, mean, maximum and slope; for event counts only their sum.
std::string summary_table(std::span<const monitoring::SeriesSummary> metrics, bool color);

// The baseline: the parts of the machine's memory, signs that the machine was not idle, the largest
// processes.
std::string baseline_words(std::span<const monitoring::SeriesSummary> metrics, const SystemSample& last);

}  // namespace headroom::watch
