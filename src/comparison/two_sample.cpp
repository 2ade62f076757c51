#include "comparison/two_sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "monitoring/series_growth.h"

namespace headroom::comparison {
namespace {

constexpr std::size_t kDraws = 1000;  // of runs
constexpr double kManyDegrees = 1e7;

// The continued fraction of I_x(a, b) by Lentz's method (Numerical Recipes 6.4).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m < 10'000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double step = 0;
    for (const double coefficient : {even, odd}) {
      d = 1 / away_from_zero(1 + coefficient * d);
      c = away_from_zero(1 + coefficient / c);
      step = d * c;
      fraction *= step;
    }
    if (std::abs(step - 1) < 1e-14) break;
  }
  return fraction;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// The lag-1 correlation; `bias` counts the fitted parameters: 1 for a mean, 2 for a line.
double alike_of(std::span<const double> deviations, double squares, double bias) {
  constexpr double kMostAlike = 0.95;
  const auto n = static_cast<double>(deviations.size());
  double neighbours = 0;
  for (std::size_t i = 1; i < deviations.size(); ++i) neighbours += deviations[i] * deviations[i - 1];
  return std::clamp((n * neighbours / squares + bias) / (n - 2 - bias), 0.0, kMostAlike);
}

// A line through a series, or its mean where `with_slope` is false.
struct SeriesFit {
  double mean = 0, slope = 0;  // slope: from one value to the next
  double independent = 1;      // values, as many as their neighbours leave
  double squared_error = 0;    // of the mean
  double slope_error = 0;
  bool is_exact = false;  // nothing is left of it
};

SeriesFit fit_of(std::span<const double> series, bool with_slope) {
  constexpr double kLeastIndependent = 1.2;
  const auto n = static_cast<double>(series.size());
  SeriesFit fit;
  fit.mean = mean_of(series);
  const double middle = (n - 1) / 2;
  double spread = 0, products = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    spread += x * x;
    products += x * (series[i] - fit.mean);
  }
  if (with_slope) fit.slope = products / spread;
  std::vector<double> deviations;
  double squares = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    deviations.push_back(series[i] - fit.mean - fit.slope * (static_cast<double>(i) - middle));
    squares += deviations.back() * deviations.back();
  }
  // Smaller residuals are rounding.
  const double largest = std::max(std::abs(series.front()), std::abs(series.back()));
  fit.independent = n;
  fit.is_exact = std::sqrt(squares / n) <= 1e-12 * largest;
  if (fit.is_exact) return fit;
  const double alike = alike_of(deviations, squares, with_slope ? 2 : 1);
  fit.independent = std::max(kLeastIndependent, n * (1 - alike) / (1 + alike));
  // Correlated values vary less than independent ones.
  fit.squared_error = squares / n / (1 - 1 / fit.independent) / fit.independent;
  const double degrees = std::max(1.0, n - 2);
  fit.slope_error = std::sqrt(squares / degrees / spread * n / fit.independent);
  return fit;
}

Difference tested(double estimate, double error, double degrees, double confidence) {
  Difference difference{estimate, estimate, estimate, estimate == 0 ? 1.0 : 0.0};
  if (error <= 0) return difference;
  const double reach = student_quantile((1 + confidence) / 2, degrees) * error;
  difference.low -= reach;
  difference.high += reach;
  difference.p = 2 * student_cdf(-std::abs(estimate) / error, degrees);
  return difference;
}

// Welch's degrees of freedom for the sum of two squared errors.
double welch_degrees(double square_a, double degrees_a, double square_b, double degrees_b) {
  const double both = square_a + square_b;
  return both * both / (square_a * square_a / degrees_a + square_b * square_b / degrees_b);
}

void draw(std::span<const double> of, std::minstd_rand& random, std::vector<double>& values) {
  for (double& value : values) value = of[random() % of.size()];
}

double middle_mean_of(std::vector<double>& values) {
  std::ranges::sort(values);
  const std::size_t left_out = values.size() / 4;
  return mean_of(std::span(values).subspan(left_out, values.size() - 2 * left_out));
}

std::vector<double> distances_from(std::span<const double> values, double middle) {
  std::vector<double> distances;
  for (const double value : values) distances.push_back(value - middle);
  return distances;
}

// `drawn`: the error of the estimate in each draw. `widening`: factor for the variance, because values lie
// closer to their own middle than to the true one.
Difference by_draws(double estimate, std::vector<double> drawn, double widening, double degrees,
                    double confidence) {
  constexpr double kTail = 0.05, kErrorsToTail = 1.6449;
  std::ranges::sort(drawn);
  const auto tail = static_cast<std::size_t>(kTail * static_cast<double>(drawn.size()));
  const double one_error = std::sqrt(widening) / kErrorsToTail;
  const double below = std::max(0.0, -drawn[tail]) * one_error;
  const double above = std::max(0.0, drawn[drawn.size() - 1 - tail]) * one_error;
  const double errors = student_quantile((1 + confidence) / 2, degrees);
  Difference difference{estimate, estimate - errors * below, estimate + errors * above, 1};
  const double towards_none = estimate > 0 ? below : above;
  if (towards_none > 0)
    difference.p = 2 * student_cdf(-std::abs(estimate) / towards_none, degrees);
  else if (estimate != 0)
    difference.p = 0;
  return difference;
}

const Difference& wider(const Difference& one, const Difference& other) {
  return one.high - one.estimate > other.high - other.estimate ? one : other;
}

}  // namespace

double student_cdf(double t, double degrees) {
  if (degrees > kManyDegrees) return std::erfc(-t / std::numbers::sqrt2) / 2;  // normal
  const double tail = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
  return t > 0 ? 1 - tail : tail;
}

double student_quantile(double p, double degrees) {
  if (p < 0.5) return -student_quantile(1 - p, degrees);
  double low = 0, high = 1;
  while (student_cdf(high, degrees) < p && high < 1e12) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_cdf(middle, degrees) < p ? low : high) = middle;
  }
  return high;
}

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double middle_mean(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  return middle_mean_of(sorted);
}

std::optional<double> superiority(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  if (a.empty() || b.empty()) return std::nullopt;
  std::vector<std::int64_t> sorted(a.begin(), a.end());
  std::ranges::sort(sorted);
  double won = 0;
  for (const std::int64_t value : b) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), value);
    won += static_cast<double>(first - sorted.begin()) + static_cast<double>(last - first) / 2;
  }
  return won / static_cast<double>(a.size()) / static_cast<double>(b.size());
}

double slope_of_series(std::span<const double> series) { return fit_of(series, true).slope; }

SeriesShape shape_of_series(std::span<const double> series) {
  // The share of independent values at a correlation of 0.7. Residuals of a line need 0.4, because a line
  // follows much of a slow series.
  constexpr double kShareToKnow = 0.17, kShareAboutALine = 0.4, kCertainly = 0.999;
  const auto n = static_cast<double>(series.size());
  const SeriesFit level = fit_of(series, false);
  if (level.independent >= kShareToKnow * n) return SeriesShape::level;
  const SeriesFit line = fit_of(series, true);
  const double known = student_quantile((1 + kCertainly) / 2, std::max(1.0, line.independent - 2));
  if (line.is_exact ||
      (line.independent >= kShareAboutALine * n && std::abs(line.slope) > known * line.slope_error))
    return SeriesShape::trend;
  return SeriesShape::slow;
}

Difference welch_of_series(std::span<const double> a, std::span<const double> b, double confidence) {
  constexpr double kLeastDegrees = 0.3;
  const SeriesFit of_a = fit_of(a, false), of_b = fit_of(b, false);
  const double both = of_a.squared_error + of_b.squared_error;
  if (both <= 0) return tested(of_b.mean - of_a.mean, 0, 1, confidence);
  const double degrees = welch_degrees(of_a.squared_error, std::max(kLeastDegrees, of_a.independent - 1),
                                       of_b.squared_error, std::max(kLeastDegrees, of_b.independent - 1));
  Difference difference = tested(of_b.mean - of_a.mean, std::sqrt(both), degrees, confidence);
  const auto [low_a, high_a] = std::ranges::minmax_element(a);
  const auto [low_b, high_b] = std::ranges::minmax_element(b);
  // Where the test leaves it open which is larger, so does this.
  difference.low = std::max(difference.low, std::min(0.0, *low_b - *high_a));
  difference.high = std::min(difference.high, std::max(0.0, *high_b - *low_a));
  return difference;
}

Difference slopes_of_series(std::span<const double> a, double step_a, std::span<const double> b,
                            double step_b, double confidence) {
  const SeriesFit of_a = fit_of(a, true), of_b = fit_of(b, true);
  const double estimate = of_b.slope / step_b - of_a.slope / step_a;
  const double square_a = std::pow(of_a.slope_error / step_a, 2),
               square_b = std::pow(of_b.slope_error / step_b, 2);
  const double both = square_a + square_b;
  if (both <= 0) return tested(estimate, 0, 1, confidence);
  const double degrees = welch_degrees(square_a, std::max(1.0, of_a.independent - 2), square_b,
                                       std::max(1.0, of_b.independent - 2));
  return tested(estimate, std::sqrt(both), degrees, confidence);
}

Difference bootstrap(std::span<const double> a, std::span<const double> b, double confidence) {
  const double middle_a = middle_mean(a), middle_b = middle_mean(b);
  const std::vector<double> distances_a = distances_from(a, middle_a),
                            distances_b = distances_from(b, middle_b);
  std::minstd_rand random(1);
  std::vector<double> of_draws, drawn_a(a.size()), drawn_b(b.size());
  for (std::size_t i = 0; i < kDraws; ++i) {
    draw(distances_a, random, drawn_a);
    draw(distances_b, random, drawn_b);
    of_draws.push_back(middle_mean_of(drawn_b) - middle_mean_of(drawn_a));
  }
  const auto fewer = static_cast<double>(std::min(a.size(), b.size()));
  return by_draws(middle_b - middle_a, std::move(of_draws), fewer / (fewer - 1), 2 * (fewer - 1), confidence);
}

Difference bootstrap_of_pairs(std::span<const double> a, std::span<const double> b, double confidence) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(b[i] - a[i]);
  const double middle = middle_mean(differences);
  const std::vector<double> distances = distances_from(differences, middle);
  std::minstd_rand random(1);
  std::vector<double> of_draws, drawn(distances.size());
  for (std::size_t i = 0; i < kDraws; ++i) {
    draw(distances, random, drawn);
    of_draws.push_back(middle_mean_of(drawn));
  }
  const auto pairs = static_cast<double>(distances.size());
  return by_draws(middle, std::move(of_draws), pairs / (pairs - 1), pairs - 1, confidence);
}

// Why distances between values: one of three distances from a median is 0, so with three values per side a
// spread by them has 24 % of false alarms instead of 1.5 %. Each group's own spread counts too: with ten
// values and three whose spread is five times as large, nearly all distances are of the ten, which has 45 %
// of false alarms (two_sample_test.cpp counts them).
Difference between_medians(std::span<const double> a, std::span<const double> b, double least_spread,
                           double confidence) {
  constexpr double kSpreadOfNormal =
      1.0483;  // of a normal distribution: standard deviation / median distance
  const double error_of_median = std::sqrt(std::numbers::pi / 2);  // over that of a mean
  const auto distances_in = [](std::span<const double> group) {
    std::vector<double> distances;
    for (std::size_t i = 0; i < group.size(); ++i)
      for (std::size_t k = 0; k < i; ++k) distances.push_back(std::abs(group[i] - group[k]));
    return distances;
  };
  std::vector<double> copy_a(a.begin(), a.end()), copy_b(b.begin(), b.end());
  std::vector<double> of_a = distances_in(a), of_b = distances_in(b), of_both = of_a;
  of_both.insert(of_both.end(), of_b.begin(), of_b.end());
  const double estimate = monitoring::median(copy_b) - monitoring::median(copy_a);
  const auto n_a = static_cast<double>(a.size()), n_b = static_cast<double>(b.size());
  const double of_medians = error_of_median * std::sqrt(1 / n_a + 1 / n_b);
  const Difference allowed = known_error(estimate, of_medians * least_spread, confidence);
  const Difference together =
      tested(estimate, of_medians * kSpreadOfNormal * monitoring::median(of_both), n_a + n_b - 2, confidence);
  // Twice Welch's degrees of freedom. With Welch's alone, equal spreads have 0.1 % of false alarms, and the
  // interval is half as wide again with three values per side.
  const double spread_a = kSpreadOfNormal * monitoring::median(of_a),
               spread_b = kSpreadOfNormal * monitoring::median(of_b);
  const double square_a = spread_a * spread_a / n_a, square_b = spread_b * spread_b / n_b;
  const double both = square_a + square_b;
  if (both <= 0 || a.size() < 2 || b.size() < 2) return wider(allowed, together);
  const double degrees = std::min(n_a + n_b - 2, 2 * welch_degrees(square_a, n_a - 1, square_b, n_b - 1));
  const Difference each = tested(estimate, error_of_median * std::sqrt(both), degrees, confidence);
  return wider(wider(allowed, together), each);
}

Difference known_error(double estimate, double standard_error, double confidence) {
  return tested(estimate, standard_error, std::numeric_limits<double>::infinity(), confidence);
}

}  // namespace headroom::comparison
