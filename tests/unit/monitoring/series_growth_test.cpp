// How often the verdict on a generated series is wrong, over many series of each kind. Kinds and bounds are
// those of the table in docs/trace-report.md; --gtest_filter='*Rate*' prints the rates.
#include "monitoring/series_growth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace headroom::monitoring {
namespace {

using Series = std::vector<std::int64_t>;
// The live bytes at the ends of `points` cycles.
using Kind = std::function<Series(std::mt19937_64&, int points)>;

double chance(std::mt19937_64& random) { return std::uniform_real_distribution<>(0, 1)(random); }

Series series_of(int points, const std::function<double(int)>& live) {
  Series series;
  for (int i = 1; i <= points; ++i) series.push_back(1'000'000 + std::llround(live(i)));
  return series;
}

// A buffer that keeps the largest requested size.
Kind largest_of(const std::function<double(std::mt19937_64&)>& size) {
  return [size](std::mt19937_64& random, int points) {
    double most = 0;
    return series_of(points, [&](int) { return most = std::max(most, size(random)); });
  };
}

Series noise(std::mt19937_64& random, int points) {
  return series_of(points, [&](int) { return 1e4 * std::normal_distribution<>()(random); });
}
Series noise_that_lasts(std::mt19937_64& random, int points) {  // half of the noise remains in the next cycle
  double held = 1.15 * std::normal_distribution<>()(random);
  return series_of(points, [&](int) {
    held = held / 2 + std::normal_distribution<>()(random);
    return 1e4 * held;
  });
}
Series leak(std::mt19937_64&, int points) {
  return series_of(points, [](int i) { return 100.0 * i; });
}
Series leak_of_random_sizes(std::mt19937_64& random, int points) {
  double held = 0;
  return series_of(points, [&](int) { return held -= 1000 * std::log(chance(random)); });
}
Series leak_of_three_in_ten(std::mt19937_64& random, int points) {
  double held = 0;
  return series_of(points, [&](int) { return held += chance(random) < 0.3 ? 100 : 0; });
}
Series leak_with_odd_cycles(std::mt19937_64& random, int points) {
  return series_of(points, [&](int i) { return 100.0 * i + (chance(random) < 0.05 ? 1e6 : 0); });
}
Series container(std::mt19937_64& random, int points) {
  const double first = 100 * (1 + 3 * chance(random));
  return series_of(points, [&](int i) {
    double capacity = first;
    while (capacity < 100.0 * i) capacity *= 2;
    return capacity;
  });
}
Series last_three_quarters_are_kept(std::mt19937_64&, int points) {
  return series_of(points, [&](int i) { return 1e4 * std::min(i, points * 3 / 4); });
}

struct Rate {
  std::string name;
  Kind kind;
  std::vector<int> points{12, 24, 47};
  double at_least = 0, at_most = 1;  // share of series that are reported as leaks
};

void PrintTo(const Rate& rate, std::ostream* out) { *out << rate.name; }

class RateOfLeaks : public testing::TestWithParam<Rate> {};

TEST_P(RateOfLeaks, IsWithinItsBounds) {
  constexpr int kSeries = 1000;
  for (const int points : GetParam().points) {
    std::vector<std::int64_t> cycles(static_cast<std::size_t>(points));
    std::iota(cycles.begin(), cycles.end(), 1);
    int leaks = 0, late = 0;
    for (unsigned seed = 1; seed <= kSeries; ++seed) {
      std::mt19937_64 random(seed);
      const Growth growth = growth_of(cycles, GetParam().kind(random, points), 0).growth;
      leaks += growth == Growth::leak;
      late += growth == Growth::grew_late;
    }
    std::cout << points << " points: " << 0.1 * leaks << " % leak, " << 0.1 * late << " % grew late\n";
    EXPECT_GE(leaks, GetParam().at_least * kSeries) << points << " points";
    EXPECT_LE(leaks, GetParam().at_most * kSeries) << points << " points";
  }
}

const auto uniform = [](std::mt19937_64& random) { return 1e5 * chance(random); };
const auto normal_value = [](std::mt19937_64& random) {
  return 1e5 + 2e4 * std::normal_distribution<>()(random);
};
const auto exponential = [](std::mt19937_64& random) { return -1e4 * std::log(chance(random)); };
const auto rare = [](std::mt19937_64& random) { return chance(random) < 0.05 ? uniform(random) : 0; };

INSTANTIATE_TEST_SUITE_P(
    NoLeak, RateOfLeaks,
    testing::Values(
        Rate{.name = "noise", .kind = noise, .at_most = 0.02},
        Rate{.name = "noise that lasts", .kind = noise_that_lasts, .at_most = 0.05},
        Rate{.name = "largest, uniform sizes", .kind = largest_of(uniform), .at_most = 0.03},
        Rate{.name = "largest, normal sizes", .kind = largest_of(normal_value), .at_most = 0.05},
        Rate{.name = "largest, exponential", .kind = largest_of(exponential), .at_most = 0.07},
        Rate{.name = "largest, rare sizes", .kind = largest_of(rare), .at_most = 0.02},
        Rate{.name = "kept for most of the run", .kind = last_three_quarters_are_kept, .at_most = 0}));
INSTANTIATE_TEST_SUITE_P(
    Leak, RateOfLeaks,
    testing::Values(
        Rate{.name = "of each cycle", .kind = leak, .at_least = 1},
        Rate{.name = "of random sizes", .kind = leak_of_random_sizes, .at_least = 0.96},
        Rate{.name = "of three cycles in ten", .kind = leak_of_three_in_ten, .points = {47}, .at_least = 0.9},
        Rate{.name = "with odd cycles", .kind = leak_with_odd_cycles, .points = {24, 47}, .at_least = 0.98},
        Rate{.name = "of a container", .kind = container, .points = {24, 47}, .at_least = 1}));

// Sen (1968) gives the interval as the slopes of ranks (N -+ C) / 2 of N, C = 1.96 sqrt(n(n-1)(2n+5)/18).
TEST(SlopeWithInterval, EqualsAnExampleByHand) {
  const std::vector<double> x{0, 1, 2, 3, 4, 5}, y{0, 1, 2, 3, 4, 11};
  const auto slope = slope_with_interval(x, y);
  ASSERT_TRUE(slope);
  EXPECT_EQ(slope->slope, 1);
  EXPECT_EQ(slope->low, 1);   // rank 2 of 15
  EXPECT_EQ(slope->high, 4);  // rank 14: 11/5, 10/4, 9/3, 8/2, 7 are above 1
}

TEST(SlopeWithInterval, HoldsZeroForNoise) {
  const std::vector<double> x{0, 1, 2, 3, 4, 5, 6, 7}, y{5, 1, 4, 2, 3, 5, 1, 4};
  const auto slope = slope_with_interval(x, y);
  ASSERT_TRUE(slope);
  EXPECT_LT(slope->low, 0);
  EXPECT_GT(slope->high, 0);
}

TEST(SlopeWithInterval, NeedsFivePoints) {
  EXPECT_FALSE(slope_with_interval(std::vector<double>{0, 1, 2, 3}, std::vector<double>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace headroom::monitoring
