#include "monitoring/latency_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "support/test_support.h"

namespace headroom::monitoring {
namespace {

std::vector<std::int64_t> one_to(std::int64_t n) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

// P(X ≤ t) for X binomial in (n, q), computed from the definition by recursion, without logarithms. Long
// double can represent 0.9^n up to n of about 100,000.
long double binomial_tail(std::int64_t t, std::int64_t n, long double q) {
  long double term = std::pow(1 - q, static_cast<long double>(n));
  long double sum = term;
  for (std::int64_t k = 0; k < t; ++k) {
    term *= static_cast<long double>(n - k) / static_cast<long double>(k + 1) * q / (1 - q);
    sum += term;
  }
  return sum;
}

// Tries the definition from the highest rank down: the most samples at or above the bound that still prove
// it.
std::optional<std::size_t> bound_by_brute_force(std::int64_t n, long double p, long double confidence) {
  for (std::int64_t t = n - 1; t >= 1; --t)
    if (binomial_tail(t, n, 1 - p) <= 1 - confidence) return static_cast<std::size_t>(n - t);
  return std::nullopt;
}

TEST(NearestRank, IsSmallestValueWithShareAtOrBelowIt) {
  const auto ten = one_to(10);
  EXPECT_EQ(nearest_rank(ten, 0.50), 5);
  EXPECT_EQ(nearest_rank(ten, 0.90), 9);
  EXPECT_EQ(nearest_rank(ten, 0.91), 10);
  EXPECT_EQ(nearest_rank(ten, 1.0), 10);
  EXPECT_EQ(nearest_rank(ten, 0.01), 1);
  EXPECT_EQ(nearest_rank(one_to(1), 0.99), 1);
}

TEST(NearestRank, DoesNotRoundUpWholeRank) {
  // In binary, 0.07 × 100 and 0.29 × 100 are slightly above the whole number; others are slightly below.
  for (const std::int64_t n : {100, 1000, 100'000})
    for (std::int64_t percent = 1; percent <= 100; ++percent)
      EXPECT_EQ(nearest_rank(one_to(n), static_cast<double>(percent) / 100), percent * n / 100)
          << percent << " of " << n;
}

TEST(PercentileBound, NeedsAsManySamplesAsLoadGen) {
  EXPECT_FALSE(percentile_bound_index(63, 0.90, 0.99));
  EXPECT_EQ(percentile_bound_index(64, 0.90, 0.99), 63U);  // t = 1: sorted[n − 1], the largest
  EXPECT_FALSE(percentile_bound_index(661, 0.99, 0.99));
  EXPECT_TRUE(percentile_bound_index(662, 0.99, 0.99));
  EXPECT_FALSE(percentile_bound_index(0, 0.9, 0.99));
  EXPECT_FALSE(percentile_bound_index(1, 0.9, 0.99));
  EXPECT_LT(*percentile_bound_index(1'000'000, 0.9, 0.99), 901'000U);  // 0.9^1,000,000 underflows
}

TEST(PercentileBound, AgreesWithBinomialDistribution) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  for (const double p : {0.5, 0.9, 0.97, 0.99})
    for (std::int64_t n = 1; n <= 2000; n = n * 9 / 8 + 1)
      EXPECT_EQ(percentile_bound_index(static_cast<std::size_t>(n), p, 0.99),
                bound_by_brute_force(n, p, 0.99L))
          << "p " << p << ", n " << n;
}

TEST(LatencySummary, ComputesFiguresOfSample) {
  const std::vector<std::int64_t> values{40, 10, 20, 30};
  const LatencySummary summary = summarise_latency(values);
  EXPECT_EQ(summary.n, 4);
  EXPECT_DOUBLE_EQ(summary.mean_ns, 25);
  EXPECT_DOUBLE_EQ(summary.sd_ns, std::sqrt(500.0 / 3));  // n − 1
  EXPECT_DOUBLE_EQ(summary.cv, std::sqrt(500.0 / 3) / 25);
  EXPECT_EQ(summary.min.count, 10);
  EXPECT_EQ(summary.p50.count, 20);
  EXPECT_EQ(summary.p90.count, 40);
  EXPECT_EQ(summary.max.count, 40);
  EXPECT_FALSE(summary.p90_bound);
  EXPECT_FALSE(summary.p99_bound);
}

TEST(LatencySummary, HandlesEmptyAndSingleSample) {
  const LatencySummary nothing = summarise_latency({});
  EXPECT_EQ(nothing.n, 0);
  EXPECT_TRUE(nothing.histogram.empty());
  const LatencySummary one = summarise_latency(std::vector<std::int64_t>{7});
  EXPECT_EQ(one.n, 1);
  EXPECT_DOUBLE_EQ(one.mean_ns, 7);
  EXPECT_DOUBLE_EQ(one.sd_ns, 0);
  EXPECT_EQ(one.p99.count, 7);
}

TEST(LatencySummary, SmallSpreadOfLargeValuesKeepsPrecision) {
  // A week in nanoseconds, ± 1: the squares need 98 bits.
  constexpr std::int64_t kWeek = 604'800'000'000'000;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 1000; ++i) values.push_back(kWeek + (i % 2 == 0 ? 1 : -1));
  const LatencySummary summary = summarise_latency(values);
  EXPECT_DOUBLE_EQ(summary.mean_ns, static_cast<double>(kWeek));
  EXPECT_NEAR(summary.sd_ns, std::sqrt(1000.0 / 999), 1e-12);
}

TEST(LatencyHistogram, CountsEachValueInItsBucket) {
  std::mt19937_64 random(3);
  std::vector<std::int64_t> values;
  for (int i = 0; i < 5000; ++i)
    values.push_back(1'000'000 + static_cast<std::int64_t>(random() % 30'000'000));
  const LatencySummary summary = summarise_latency(values);
  ASSERT_EQ(summary.histogram.size(), static_cast<std::size_t>(kHistogramBuckets));
  const double low = static_cast<double>(summary.min.count);
  const double ratio = std::pow(static_cast<double>(summary.max.count) / low, 1.0 / kHistogramBuckets);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < summary.histogram.size(); ++i) {
    const double from = low * std::pow(ratio, static_cast<double>(i));
    const double to = from * ratio;
    const auto inside = std::ranges::count_if(values, [&](std::int64_t value) {
      const double at = static_cast<double>(value);
      return at >= from && (at < to || i + 1 == summary.histogram.size());
    });
    EXPECT_NEAR(static_cast<double>(summary.histogram[i]), static_cast<double>(inside), 1)
        << i;  // rounding at edges
    total += summary.histogram[i];
  }
  EXPECT_EQ(total, summary.n);
}

TEST(LatencyHistogram, HandlesEqualValuesAndZero) {
  const LatencySummary equal = summarise_latency(std::vector<std::int64_t>{5, 5, 5});
  EXPECT_EQ(equal.histogram.front(), 3);
  EXPECT_EQ(std::accumulate(equal.histogram.begin(), equal.histogram.end(), std::int64_t{0}), 3);
  EXPECT_TRUE(summarise_latency(std::vector<std::int64_t>{0, 5}).histogram.empty());
}

// All of `values`, at most `most` at a time. `values` must outlive the result.
ValuePieces in_pieces_of(std::size_t most, std::span<const std::int64_t> values) {
  return [=](const EachPiece& each) {
    for (std::size_t first = 0; first < values.size(); first += most)
      each(values.subspan(first, std::min(most, values.size() - first)));
  };
}

// Compares every figure with the summary of the sorted values, at sizes below and above the limit for
// passes.
void expect_the_same_in_passes(const std::vector<std::int64_t>& values) {
  const LatencySummary whole = summarise_latency(values);
  const LatencySummary passes = summarise_latency_in_passes(in_pieces_of(1000, values));
  EXPECT_EQ(passes.n, whole.n);
  EXPECT_DOUBLE_EQ(passes.mean_ns, whole.mean_ns);
  EXPECT_NEAR(passes.sd_ns, whole.sd_ns, 1e-9 * whole.sd_ns);  // summed in another order
  EXPECT_EQ(passes.min, whole.min);
  EXPECT_EQ(passes.p50, whole.p50);
  EXPECT_EQ(passes.p90, whole.p90);
  EXPECT_EQ(passes.p99, whole.p99);
  EXPECT_EQ(passes.max, whole.max);
  EXPECT_EQ(passes.p90_bound, whole.p90_bound);
  EXPECT_EQ(passes.p99_bound, whole.p99_bound);
  EXPECT_EQ(passes.histogram, whole.histogram);
}

TEST(LatencyInPasses, AgreesWithSummaryOfSortedValues) {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> latency(std::log(5e6), 0.4);
  for (const std::size_t n : {0U, 1U, 700U, 16'384U, 16'385U, 100'000U}) {
    std::vector<std::int64_t> values(n);
    for (std::int64_t& value : values) value = static_cast<std::int64_t>(latency(random));
    expect_the_same_in_passes(values);
  }
}

TEST(LatencyInPasses, HandlesEqualAndCrowdedValues) {
  constexpr std::size_t kMany = 50'000;
  std::vector<std::int64_t> values(kMany, 7);
  expect_the_same_in_passes(values);
  for (std::size_t i = 0; i < kMany; ++i) values[i] = static_cast<std::int64_t>(i % 3);
  expect_the_same_in_passes(values);
  // One value of a century puts all others into the first bin of the first passes.
  for (std::size_t i = 0; i < kMany; ++i) values[i] = 1'000'000 + static_cast<std::int64_t>(i * 7919 % kMany);
  values[kMany / 2] = 3'155'760'000'000'000'000;
  expect_the_same_in_passes(values);
}

TEST(CountSummary, ComputesMeanMinAndMax) {
  const std::vector<std::int64_t> counts{3, 0, 6};
  const CountSummary summary = summarise_counts(in_pieces_of(2, counts));
  EXPECT_EQ(summary.n, 3);
  EXPECT_DOUBLE_EQ(summary.mean, 3);
  EXPECT_EQ(summary.min, 0);
  EXPECT_EQ(summary.max, 6);
  EXPECT_EQ(summarise_counts(in_pieces_of(2, {})).n, 0);
}

}  // namespace
}  // namespace headroom::monitoring
