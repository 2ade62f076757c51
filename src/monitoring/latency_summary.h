// Latency statistics by the definitions of docs/figures.md: nearest-rank percentiles, LoadGen's
// early-stopping bounds, standard deviation of the sample.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/units.h"
#include "types/bench_result.h"

namespace headroom::monitoring {

inline constexpr int kHistogramBuckets = 48;

// Values too many for memory: gives all of them to `each`, piece by piece, the same at every call.
using EachPiece = std::function<void(std::span<const std::int64_t>)>;
using ValuePieces = std::function<void(const EachPiece& each)>;

// Sorts what it is given: hand it over, or it is a copy. n = 0 gives an empty summary.
LatencySummary summarise_latency(std::vector<std::int64_t> nanoseconds);

// The same figures in 400 KiB, however many values there are: more than 16,384 are not sorted, and those at
// the wanted ranks are found in passes (four for latencies below 4 s apart, at most seven).
LatencySummary summarise_latency_in_passes(const ValuePieces& nanoseconds);

// Nearest rank: sorted[ceil(p·n) − 1]; p in (0, 1]; n > 0.
std::int64_t nearest_rank(std::span<const std::int64_t> sorted, double p);
std::size_t nearest_rank_index(std::size_t n, double p);

// LoadGen early stopping: the smallest sample that bounds percentile p from above with the given confidence,
// or nothing if n is too small. (MLPerf inference, "early stopping": with t samples over the bound out of n,
// the binomial tail P(X ≤ t; n, 1−p) must be ≤ 1 − confidence.)
std::optional<std::int64_t> percentile_bound(std::span<const std::int64_t> sorted, double p,
                                             double confidence);
// Where that sample stands among the sorted.
std::optional<std::size_t> percentile_bound_index(std::size_t n, double p, double confidence);

CountSummary summarise_counts(const ValuePieces& counts);

}  // namespace headroom::monitoring
