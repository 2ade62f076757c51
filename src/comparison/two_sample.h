// Tests whether two groups of measurements differ: the statistics of docs/diff.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace headroom::comparison {

// Student's t with `degrees` of freedom: P(T ≤ t), and the t with P(T ≤ t) = p. Infinite degrees are the
// normal distribution.
double student_cdf(double t, double degrees);
double student_quantile(double p, double degrees);

// `values` has at least one value.
double mean_of(std::span<const double> values);

// The mean without a quarter of the values, rounded down, at each end. One run in four that another program
// disturbed moves it little.
double middle_mean(std::span<const double> values);

// Vargha and Delaney's A, P(b > a) + P(b = a)/2: 0.5 means that neither tends to be larger. Absent if a side
// is empty.
std::optional<double> superiority(std::span<const std::int64_t> a, std::span<const std::int64_t> b);

struct Difference {
  double estimate = 0;  // b − a
  double low = 0, high = 0;
  double p = 1;  // probability of such a difference without a change
};

// The course of a series of at least kLeastOfSeries values, whose neighbours may be correlated.
enum class SeriesShape {
  level,  // it stays around one value, and its mean is known
  trend,  // it rises or falls, and stays around a line
  slow,   // it changes as slowly as the series is long, or in a step
};
inline constexpr std::size_t kLeastOfSeries = 5;
SeriesShape shape_of_series(std::span<const double> series);
// By least squares, per step.
double slope_of_series(std::span<const double> series);

// Welch's t-test of the means of two level series. With the lag-1 correlation r, n·(1 − r)/(1 + r) values
// count as independent; r is corrected for its bias in short series, (n·r + 1)/(n − 3) (Kendall). The
// interval reaches no farther than from the lowest value of one to the highest of the other.
Difference welch_of_series(std::span<const double> a, std::span<const double> b, double confidence);
// The difference of two slopes by least squares, in units of the values per unit of `step`. Correlated
// residuals count as above.
Difference slopes_of_series(std::span<const double> a, double step_a, std::span<const double> b,
                            double step_b, double confidence);

// The difference of the middle means of two groups of two or more values, with a bootstrap interval: each
// group is drawn 1,000 times, with replacement. The draws give the standard error; Student's t widens the
// interval for few values. The same values always give the same interval.
Difference bootstrap(std::span<const double> a, std::span<const double> b, double confidence);
// The same for two or more pairs a[i], b[i]: their differences are drawn, so what both have in common, such
// as the speed of the machine at that moment, cancels out.
Difference bootstrap_of_pairs(std::span<const double> a, std::span<const double> b, double confidence);
// The difference of the medians of two groups. The spread is the median distance between two values of a
// group, with Student's t for few values: of both groups together or of each group alone, the wider; at least
// `least_spread`. One outlier moves neither.
Difference between_medians(std::span<const double> a, std::span<const double> b, double least_spread,
                           double confidence);
// The interval for a known standard error.
Difference known_error(double estimate, double standard_error, double confidence);

}  // namespace headroom::comparison
