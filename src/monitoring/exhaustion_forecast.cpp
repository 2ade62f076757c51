#include "monitoring/exhaustion_forecast.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "monitoring/series_growth.h"

namespace headroom::monitoring {
namespace {

constexpr std::size_t kFewestPoints = 12;
constexpr double kFurthest = 2;  // times the length of the level
// One line leaves so much more than two lines: the series is bent.
constexpr double kBent = 1.3;
// Growth has ended if the last half has less than this share of the slope.
constexpr double kStalled = 0.5;
// One-sided 0.1 %: the test is repeated often.
constexpr double kCertain = 3.09;

// The mean residual of a line.
double scatter_of(std::span<const double> x, std::span<const double> y, double slope,
                  std::span<double> work) {
  const auto rests = work.first(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) rests[i] = y[i] - slope * x[i];
  const double middle = median(rests);
  double sum = 0;
  for (const double rest : rests) sum += std::abs(rest - middle);
  return sum / static_cast<double>(x.size());
}

}  // namespace

// In seconds and bytes, without the last, unfinished stretch.
struct ExhaustionForecast::Points {
  std::array<double, kStretches> x{}, y{};
  std::size_t count = 0;
  std::span<const double> xs(std::size_t from, std::size_t to) const {
    return std::span(x).subspan(from, to - from);
  }
  std::span<const double> ys(std::size_t from, std::size_t to) const {
    return std::span(y).subspan(from, to - from);
  }
};

void ExhaustionForecast::add(Level& level, std::int64_t time, std::int64_t used) {
  const std::int64_t number = time / level.length;
  if (level.count > 0) {
    const std::size_t last = (level.first + level.count - 1) % kStretches;
    if (level.number[last] == number) {
      level.most[last] = std::max(level.most[last], used);
      return;
    }
  }
  if (level.count == kStretches) {
    level.first = (level.first + 1) % kStretches;
    --level.count;
  }
  const std::size_t next = (level.first + level.count++) % kStretches;
  level.number[next] = number;
  level.most[next] = used;
}

void ExhaustionForecast::add(Nanoseconds time, Bytes used) {
  if (levels_.empty()) {
    begin_ = last_ = time.count;
    levels_.push_back({.length = stretch_});
  }
  if (time.count < last_) return;
  last_ = time.count;
  const std::int64_t passed = last_ - begin_;
  // Adds a level when the longest no longer reaches back to the first sample.
  while (passed / levels_.back().length >= static_cast<std::int64_t>(kStretches)) {
    const Level& shorter = levels_.back();
    Level longer{.length = 2 * shorter.length};
    for (std::size_t i = 0; i < shorter.count; ++i) {
      const std::size_t at = (shorter.first + i) % kStretches;
      add(longer, shorter.number[at] * shorter.length, shorter.most[at]);
    }
    levels_.push_back(longer);
  }
  for (Level& level : levels_) add(level, passed, used.count);
}

ExhaustionForecast::Points ExhaustionForecast::points_of(const Level& level) {
  Points points;
  for (std::size_t i = 0; i + 1 < level.count; ++i) {
    const std::size_t at = (level.first + i) % kStretches;
    points.x[points.count] =
        (static_cast<double>(level.number[at]) + 0.5) * static_cast<double>(level.length) * 1e-9;
    points.y[points.count++] = static_cast<double>(level.most[at]);
  }
  return points;
}

std::optional<Nanoseconds> ExhaustionForecast::forecast(Bytes limit) const {
  const std::optional<SteadyGrowth> found = growth();
  if (!found) return std::nullopt;
  const double left =
      std::max(0.0, (static_cast<double>(limit.count) - found->top) / found->bytes_per_second);
  if (left > kFurthest * found->level.seconds()) return std::nullopt;
  return Nanoseconds{std::llround(left * 1e9)};
}

std::optional<SteadyGrowth> ExhaustionForecast::growth() const {
  std::array<double, pairs_of(kStretches)> work;
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    const Points points = points_of(*level);
    const std::size_t n = points.count;
    if (n < kFewestPoints) continue;

    // Does the line of the first three quarters hold for the last one?
    const std::size_t q = n - n / 4;
    const double early = theil_sen_slope(points.xs(0, q), points.ys(0, q), work);
    double low = points.y[0] - early * points.x[0], high = low, late_high = points.y[q] - early * points.x[q];
    for (std::size_t i = 0; i < n; ++i) {
      const double rest = points.y[i] - early * points.x[i];
      if (i >= q) late_high = std::max(late_high, rest);
      if (i >= q) continue;
      low = std::min(low, rest);
      high = std::max(high, rest);
    }
    const auto [least, most] =
        std::minmax_element(points.y.begin(), points.y.begin() + static_cast<std::ptrdiff_t>(n));
    const double scatter = std::max(high - low, 0.02 * (*most - *least));
    if (late_high > high + scatter) continue;

    // The beginning may be the loading of a model.
    std::size_t from = n / 4;
    const std::size_t half = from + (n - from) / 2;
    double slope = theil_sen_slope(points.xs(from, n), points.ys(from, n), work);
    if (slope <= 0 || mann_kendall_certainty(points.ys(from, n), work) < kCertain) return std::nullopt;
    const double first = theil_sen_slope(points.xs(from, half), points.ys(from, half), work);
    const double second = theil_sen_slope(points.xs(half, n), points.ys(half, n), work);
    if (second < kStalled * slope) return std::nullopt;
    const double of_one = scatter_of(points.xs(from, n), points.ys(from, n), slope, work);
    const double of_two = (scatter_of(points.xs(from, half), points.ys(from, half), first, work) +
                           scatter_of(points.xs(half, n), points.ys(half, n), second, work)) /
                          2;
    if (of_one > kBent * of_two) {
      slope = second;
      from = half;
    }
    const auto rests = std::span(work).first(n - from);
    for (std::size_t i = from; i < n; ++i) rests[i - from] = points.y[i] - slope * points.x[i];
    const auto top = rests.begin() + static_cast<std::ptrdiff_t>((rests.size() * 19) / 20);
    std::nth_element(rests.begin(), top, rests.end());
    const double now = static_cast<double>(last_ - begin_) * 1e-9;
    const double begin = points.x[0], end = points.x[n - 1];
    return SteadyGrowth{slope, *top + slope * now, {std::llround((end - begin) * 1e9)}};
  }
  return std::nullopt;
}

}  // namespace headroom::monitoring
