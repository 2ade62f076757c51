// Latency statistics by the definitions of docs/figures.md: nearest-rank percentiles, LoadGen's
// early-stopping bounds, standard deviation of the sample.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "model/bench_result.h"

namespace headroom::analysis {

inline constexpr int kHistogramBuckets = 48;

// Sorts what it is given: hand it over, or it is a copy. n = 0 gives an empty summary.
LatencySummary summarise_latency(std::vector<std::int64_t> nanoseconds);

// Nearest rank: sorted[ceil(p·n) − 1]; p in (0, 1]; n > 0.
std::int64_t nearest_rank(std::span<const std::int64_t> sorted, double p);

// LoadGen early stopping: the smallest sample that bounds percentile p from above with the given confidence,
// or nothing if n is too small. (MLPerf inference, "early stopping": with t samples over the bound out of n,
// the binomial tail P(X ≤ t; n, 1−p) must be ≤ 1 − confidence.)
std::optional<std::int64_t> percentile_bound(std::span<const std::int64_t> sorted, double p,
                                             double confidence);

CountSummary summarise_counts(std::span<const std::int64_t> counts);

}  // namespace headroom::analysis
