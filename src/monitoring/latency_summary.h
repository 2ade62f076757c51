// Latency statistics by the definitions of docs/figures.md: nearest-rank percentiles, LoadGen's
// early-stopping bounds, standard deviation of the sample.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "types/bench_result.h"

namespace headroom::monitoring {

inline constexpr int kHistogramBuckets = 48;

// Values that do not fit into memory: calls `each` with all of them, in pieces, the same at every call.
using EachPiece = std::function<void(std::span<const std::int64_t>)>;
using ValuePieces = std::function<void(const EachPiece& each)>;

// An empty vector gives an empty summary.
LatencySummary summarise_latency(std::vector<std::int64_t> nanoseconds);

// The same figures in 400 KiB: more than 16,384 values are not sorted; their ranks are found in four passes
// (for ranges below 4 s) to seven.
LatencySummary summarise_latency_in_passes(const ValuePieces& nanoseconds);

// Nearest rank: sorted[ceil(p·n) − 1]; p in (0, 1]; n > 0.
std::int64_t nearest_rank(std::span<const std::int64_t> sorted, double p);
std::size_t nearest_rank_index(std::size_t n, double p);

// LoadGen early stopping (MLPerf inference): the index, among n sorted samples, of the smallest that bounds
// percentile p from above with the given confidence. Nothing if n is too small.
std::optional<std::size_t> percentile_bound_index(std::size_t n, double p, double confidence);

CountSummary summarise_counts(const ValuePieces& counts);

}  // namespace headroom::monitoring
