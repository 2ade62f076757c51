// What a watch showed, for a person.
#pragma once

#include <span>
#include <string>

#include "analysis/series_summary.h"
#include "model/sample.h"

namespace headroom::watch {

// A row a metric: minimum, mean, maximum, slope; of what counts events their sum.
std::string summary_table(std::span<const analysis::SeriesSummary> metrics, bool color);

// The idle footprint: the parts of the machine's memory, what speaks against "idle", the largest processes.
std::string baseline_words(std::span<const analysis::SeriesSummary> metrics, const SystemSample& last);

}  // namespace headroom::watch
