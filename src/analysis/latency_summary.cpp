#include "analysis/latency_summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace headroom::analysis {
namespace {

constexpr double kBoundConfidence = 0.99;

// Buckets of equal width on a logarithmic axis from the smallest value to the largest. Without positive
// values there is no such axis and no histogram.
std::vector<std::int64_t> log_histogram(std::span<const std::int64_t> sorted) {
  if (sorted.front() <= 0) return {};
  std::vector<std::int64_t> counts(kHistogramBuckets, 0);
  const double low = std::log(static_cast<double>(sorted.front()));
  const double width = std::log(static_cast<double>(sorted.back())) - low;
  for (const std::int64_t value : sorted) {
    const double share = width > 0 ? (std::log(static_cast<double>(value)) - low) / width : 0;
    const auto bucket = static_cast<std::size_t>(std::max(0.0, share * kHistogramBuckets));
    ++counts[std::min(bucket, counts.size() - 1)];  // the largest value closes the last bucket
  }
  return counts;
}

std::optional<Nanoseconds> bound_of(std::span<const std::int64_t> sorted, double p) {
  const auto bound = percentile_bound(sorted, p, kBoundConfidence);
  return bound ? std::optional<Nanoseconds>(Nanoseconds{*bound}) : std::nullopt;
}

}  // namespace

std::int64_t nearest_rank(std::span<const std::int64_t> sorted, double p) {
  // 0.07 × 100 is 7.000000000000001 in binary: a whole rank must not be rounded up to the next.
  constexpr double kRoundingError = 1e-14;
  const double rank = std::ceil(p * static_cast<double>(sorted.size()) * (1 - kRoundingError));
  return sorted[std::min(static_cast<std::size_t>(std::max(rank, 1.0)), sorted.size()) - 1];
}

// Of n samples, each is over the true percentile with probability 1 − p. If P(at most t of n are over) is at
// most 1 − confidence, then seeing only t samples at or over a value says with that confidence that the value
// is not below the percentile. The largest such t gives the tightest bound, sorted[n − t]. LoadGen demands t
// ≥ 1, so that one outlier alone is never the proof: hence n ≥ 64 for P90 and n ≥ 662 for P99 at 99 %.
std::optional<std::int64_t> percentile_bound(std::span<const std::int64_t> sorted, double p,
                                             double confidence) {
  const double n = static_cast<double>(sorted.size());
  const double odds = std::log((1 - p) / p);
  double log_term = n * std::log(p);  // of P(X = k), in logarithms: 0.9^n underflows from n = 7,000 on
  double tail = std::exp(log_term);
  std::size_t over = 0;
  while (over + 1 < sorted.size()) {
    const double k = static_cast<double>(over);
    log_term += std::log((n - k) / (k + 1)) + odds;
    const double next_tail = tail + std::exp(log_term);
    if (next_tail > 1 - confidence) break;
    tail = next_tail;
    ++over;
  }
  if (over == 0) return std::nullopt;
  return sorted[sorted.size() - over];
}

LatencySummary summarise_latency(std::vector<std::int64_t> sorted) {
  LatencySummary summary;
  if (sorted.empty()) return summary;
  std::sort(sorted.begin(), sorted.end());

  // Two passes over the distances from the smallest value: sums of squares of the values themselves would
  // cancel (a spread of 1 µs around 1 s leaves no digit of it in 53 bits).
  const double n = static_cast<double>(sorted.size());
  double distance_sum = 0;
  for (const std::int64_t value : sorted) distance_sum += static_cast<double>(value - sorted.front());
  const double mean_distance = distance_sum / n;
  double square_sum = 0;
  for (const std::int64_t value : sorted) {
    const double deviation = static_cast<double>(value - sorted.front()) - mean_distance;
    square_sum += deviation * deviation;
  }

  summary.n = static_cast<std::int64_t>(sorted.size());
  summary.mean_ns = static_cast<double>(sorted.front()) + mean_distance;
  summary.sd_ns = sorted.size() > 1 ? std::sqrt(square_sum / (n - 1)) : 0;
  summary.cv = summary.mean_ns > 0 ? summary.sd_ns / summary.mean_ns : 0;
  summary.min = {sorted.front()};
  summary.p50 = {nearest_rank(sorted, 0.50)};
  summary.p90 = {nearest_rank(sorted, 0.90)};
  summary.p99 = {nearest_rank(sorted, 0.99)};
  summary.max = {sorted.back()};
  summary.p90_bound = bound_of(sorted, 0.90);
  summary.p99_bound = bound_of(sorted, 0.99);
  summary.histogram = log_histogram(sorted);
  return summary;
}

CountSummary summarise_counts(std::span<const std::int64_t> counts) {
  CountSummary summary;
  if (counts.empty()) return summary;
  const auto [smallest, largest] = std::minmax_element(counts.begin(), counts.end());
  double sum = 0;
  for (const std::int64_t count : counts) sum += static_cast<double>(count);
  summary.n = static_cast<std::int64_t>(counts.size());
  summary.mean = sum / static_cast<double>(counts.size());
  summary.min = *smallest;
  summary.max = *largest;
  return summary;
}

}  // namespace headroom::analysis
