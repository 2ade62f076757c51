// Is it a change, or what two measurements of the same thing differ by? The statistics of docs/diff.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace headroom::comparison {

// Student's t with `degrees` of freedom: P(T ≤ t), and the t that has P(T ≤ t) = p. Infinite degrees are the
// normal distribution. By the continued fraction of the incomplete beta function (Numerical Recipes 6.4).
double student_cdf(double t, double degrees);
double student_quantile(double p, double degrees);

// The mean of one value at least.
double mean_of(std::span<const double> values);

// The mean of the middle half of the values: a quarter of them, rounded down, is left out at each end. So one
// run in four that met another program at work moves it little. Of three values and fewer it is the mean.
double middle_mean(std::span<const double> values);

// The standard error of the median, by a moving-block bootstrap: neighbours are like each other (a frame
// after a slow one is often slow), so whole blocks of √n of them are drawn. The same of the same values,
// every time. 0 of fewer than two values.
double median_error(std::span<const double> in_order);

// P(b > a) + P(b = a)/2 of a value of each: 0.5 says that neither tends to be larger. Vargha and Delaney's
// A, which is Mann and Whitney's U over n·m. Absent where a side has none.
std::optional<double> superiority(std::span<const std::int64_t> a, std::span<const std::int64_t> b);

struct Difference {
  double estimate = 0;  // b − a
  double low = 0, high = 0;
  double p = 1;  // of a difference as large where there is none
};

// What can be told of a series of at least kLeastOfSeries values, in order, whose neighbours may be alike.
enum class SeriesShape {
  level,  // it moves about one value, quickly enough for its mean to be known
  trend,  // it rises or falls, and moves quickly about a line
  slow,   // it moves as slowly as the series is long, or in a step: what it will be next is not known
};
inline constexpr std::size_t kLeastOfSeries = 5;
SeriesShape shape_of_series(std::span<const double> series);
// By least squares, from one value to the next.
double slope_of_series(std::span<const double> series);

// Welch's t-test of the means of two series that are level: as many values count as their lag-1 correlation
// leaves independent, n·(1 − r)/(1 + r), where r is cleared of its bias in short series, (n·r + 1)/(n − 3)
// (Kendall). No farther than from the lowest of one to the highest of the other.
Difference welch_of_series(std::span<const double> a, std::span<const double> b, double confidence);
// The difference of the slopes of two series, by least squares, in the unit of the values over that of the
// steps from one value to the next. What their residuals have in common with the next one counts as above.
Difference slopes_of_series(std::span<const double> a, double step_a, std::span<const double> b,
                            double step_b, double confidence);

// The one of two that reaches farther from its estimate.
Difference wider(const Difference& one, const Difference& other);

// The difference of the middle means of two groups of two values or more, with a bootstrap interval: each
// group is drawn again and again, with replacement, from its own values. How far the draws reach, at 90 %, is
// one error; Student's t makes the interval of it, which widens it for how few the values of the smaller
// group are. The same of the same values, every time.
Difference bootstrap(std::span<const double> a, std::span<const double> b, double confidence);
// The same of pairs, a[i] with b[i], of which there are two at least: their differences are drawn. What both
// of a pair have in common, such as the machine's speed at that moment, is no part of it.
Difference bootstrap_of_pairs(std::span<const double> a, std::span<const double> b, double confidence);
// The difference of the medians of two groups of at least two values each, with the spread of one value by
// the median distance between two of a group, and Student's t for how little few values know of it: of both
// groups' distances together and of each group's own, the wider; at least what `least_spread` makes of it.
// One value that is far off moves neither.
Difference between_medians(std::span<const double> a, std::span<const double> b, double least_spread,
                           double confidence);
// Where the standard error of the difference is known.
Difference known_error(double estimate, double standard_error, double confidence);

}  // namespace headroom::comparison
