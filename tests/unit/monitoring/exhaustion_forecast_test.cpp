// Fifty generated ramps and plateaus. Half-way to exhaustion, the forecast of the remaining time must be
// within 20 %. A plateau must never get a forecast. --gtest_filter='*Fifty*' prints the forecasts.
#include "monitoring/exhaustion_forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace headroom::monitoring {
namespace {

constexpr double kLimit = 8e9;
using Random = std::mt19937_64;
using UsedBytes = std::vector<double>;  // used bytes at each second

double between(Random& random, double low, double high) {
  return std::uniform_real_distribution<>(low, high)(random);
}
double normal(Random& random) { return std::normal_distribution<>()(random); }
// A duration from three minutes to five hours, in seconds.
int some_length(Random& random) { return static_cast<int>(std::pow(10, between(random, 2.3, 4.3))); }

Bytes bytes_of(double used) { return {std::llround(used)}; }
Nanoseconds at_second(std::size_t second) { return {static_cast<std::int64_t>(second) * 1'000'000'000}; }

// Grows from `start` and reaches the limit after `n` seconds. The series continues beyond that.
UsedBytes ramp(int n, double start, const std::function<double(int, double)>& shape) {
  UsedBytes series;
  for (int second = 0; second < 2 * n; ++second)
    series.push_back(shape(second, start + (kLimit - start) * second / n));
  return series;
}

UsedBytes linear(Random& random) {
  return ramp(some_length(random), between(random, 0.2, 0.6) * kLimit, [](int, double line) { return line; });
}
UsedBytes noisy(Random& random) {
  return ramp(some_length(random), between(random, 0.2, 0.6) * kLimit,
              [&](int, double line) { return line + 0.01 * kLimit * normal(random); });
}
UsedBytes steps(Random& random) {
  const int n = some_length(random);
  const double start = between(random, 0.2, 0.6) * kLimit, count = std::floor(between(random, 12, 40));
  return ramp(n, start, [=](int second, double) {
    return start + (kLimit - start) * std::floor(static_cast<double>(second) / n * count) / count;
  });
}
// A leak under a sawtooth, as a garbage collector makes it.
UsedBytes teeth(Random& random) {
  const int n = some_length(random);
  const double period = std::max(5.0, n / between(random, 16, 200));
  const double height = between(random, 0.05, 0.15) * kLimit;
  return ramp(n, between(random, 0.2, 0.6) * kLimit, [=](int second, double line) {
    return line - height + height * std::fmod(second, period) / period;
  });
}
UsedBytes noisy_plateau(Random& random) {
  const int n = some_length(random);
  const double level = between(random, 0.3, 0.85) * kLimit;
  const double scatter = between(random, 0.005, 0.04) * kLimit;
  UsedBytes series;
  for (int second = 0; second < n; ++second) series.push_back(level + scatter * normal(random));
  return series;
}

ExhaustionForecast fed_with(const UsedBytes& series, std::size_t count) {
  ExhaustionForecast forecast;
  for (std::size_t second = 0; second < count; ++second)
    forecast.add(at_second(second), bytes_of(series[second]));
  return forecast;
}

struct RampKind {
  std::string name;
  UsedBytes (*make)(Random&);
};

TEST(ExhaustionForecastTest, FiftyRampsAndPlateaus) {
  Random random(7);
  for (const RampKind& kind :
       {RampKind{"linear", linear}, {"noisy", noisy}, {"steps", steps}, {"teeth", teeth}}) {
    double worst = 0;
    for (int run = 0; run < 10; ++run) {
      const UsedBytes series = kind.make(random);
      const auto end = std::ranges::find_if(series, [](double used) { return used >= kLimit; });
      const auto seconds = static_cast<std::size_t>(end - series.begin());
      const auto answer = fed_with(series, seconds / 2 + 1).forecast(bytes_of(kLimit));
      ASSERT_TRUE(answer) << kind.name << " " << run << " of " << seconds << " s";
      const double truth = static_cast<double>(seconds - seconds / 2);
      const double error = (answer->seconds() - truth) / truth;
      EXPECT_LE(std::abs(error), 0.2) << kind.name << " " << run << " of " << seconds << " s";
      worst = std::max(worst, std::abs(error));
    }
    std::cout << kind.name << ": time left half-way wrong by at most " << std::lround(100 * worst) << " %\n";
  }
  for (int run = 0; run < 10; ++run) {
    const UsedBytes series = noisy_plateau(random);
    ExhaustionForecast forecast;
    for (std::size_t second = 0; second < series.size(); ++second) {
      forecast.add(at_second(second), bytes_of(series[second]));
      if (second % 16 != 0) continue;
      EXPECT_FALSE(forecast.forecast(bytes_of(kLimit))) << run << " at " << second;
    }
  }
}

TEST(ExhaustionForecastTest, ShorterWindowFindsLateLeak) {
  UsedBytes series(10'000, 4e9);
  for (int second = 0; second < 500; ++second) series.push_back(4e9 + 4e6 * second);
  const auto answer = fed_with(series, series.size()).forecast(bytes_of(kLimit));
  ASSERT_TRUE(answer);
  EXPECT_NEAR(answer->seconds(), 500, 50);
  EXPECT_NEAR(fed_with(series, series.size()).growth()->bytes_per_second, 4e6, 4e5);
}

TEST(ExhaustionForecastTest, SawtoothWithoutLeakHasNoForecast) {
  ExhaustionForecast forecast;
  for (std::size_t second = 0; second < 5000; ++second) {
    forecast.add(at_second(second), bytes_of(5e9 + 2e7 * static_cast<double>(second % 100)));
    // The first tooth cannot be told from a leak.
    if (second < 300 || second % 7 != 0) continue;
    EXPECT_FALSE(forecast.forecast(bytes_of(kLimit))) << "at " << second;
  }
}

TEST(ExhaustionForecastTest, NoForecastAfterGrowthEnds) {
  UsedBytes series;
  for (int second = 0; second < 100; ++second) series.push_back(1e9 + 4e7 * second);
  EXPECT_TRUE(fed_with(series, series.size()).forecast(bytes_of(kLimit)));
  series.resize(300, series.back());
  EXPECT_FALSE(fed_with(series, series.size()).forecast(bytes_of(kLimit)));
}

TEST(ExhaustionForecastTest, NoForecastFromFewSamplesOrSlowGrowth) {
  UsedBytes series;
  for (int second = 0; second < 12; ++second) series.push_back(1e9 + 1e8 * second);
  EXPECT_FALSE(fed_with(series, series.size()).forecast(bytes_of(kLimit)));
  EXPECT_FALSE(ExhaustionForecast().forecast(bytes_of(kLimit)));
  UsedBytes slow;
  for (int second = 0; second < 1000; ++second) slow.push_back(1e9 + 1e3 * second);
  EXPECT_FALSE(fed_with(slow, slow.size()).forecast(bytes_of(kLimit)));
}

TEST(ExhaustionForecastTest, ExhaustedMemoryHasNoTimeLeft) {
  UsedBytes series;
  for (int second = 0; second < 100; ++second) series.push_back(8e9 + 1e7 * second);
  const auto answer = fed_with(series, series.size()).forecast(bytes_of(kLimit));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->count, 0);
}

// A suspended laptop sends no samples for hours. The clock may start at any value.
TEST(ExhaustionForecastTest, ToleratesGapsAndClockGoingBack) {
  ExhaustionForecast forecast;
  const std::int64_t begin = 1'000'000'000'000'000'000;
  for (std::int64_t second = 0; second < 200; ++second)
    forecast.add({begin + (second < 100 ? second : second + 20'000) * 1'000'000'000}, bytes_of(1e9));
  forecast.add({5}, bytes_of(7.9e9));
  EXPECT_FALSE(forecast.forecast(bytes_of(kLimit)));
}

}  // namespace
}  // namespace headroom::monitoring
