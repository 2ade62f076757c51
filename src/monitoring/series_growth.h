// Decides whether a series of live bytes, one value at the end of each cycle, grows.
//
// The first third is left out as warm-up. A leak grows by the test of Mann and Kendall (one-sided, 5 %),
// reaches more new highs than values in random order (5 %), and still grows in the last half, at a quarter
// of the pace or more. The second test rejects rare growth, such as a buffer that keeps its largest size.
//
// A container that doubles grows in ever rarer steps, the last of them anywhere in the second half of the
// run. So growth in steps counts as ended only if nothing grew in the last three fifths of the run; if the
// series never stayed the same for so long, it is a leak, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "types/enum_names.h"

namespace headroom::monitoring {

enum class Growth {
  unknown,             // too few cycles
  none,                // what it holds does not grow
  grew_then_stayed,    // it grew, and no longer does
  grew_then_released,  // it grew with the cycles, and what grew was released after them
  grew_late,           // it grew so late that there is no telling whether it stays
  leak,                // it grows with the cycles
};

// The names in JSON.
constexpr std::string_view name_of(Growth growth) {
  return name_in({"unknown", "none", "grew_then_stayed", "grew_then_released", "grew_late", "leak"}, growth);
}

inline constexpr std::int64_t kFewestCycles = 5;

// `cycles` ascend. Growth below `least_growth` is noise. Fewer than kFewestCycles points are
// Growth::unknown. Never grew_then_released, because the series ends with the last cycle.
struct SeriesGrowth {
  Growth growth = Growth::unknown;
  double per_cycle = 0;
  std::size_t warm_up = 0;  // points left out
  // The cycle of the last step of growth. 0 if no step stands out, and for a leak in every cycle.
  std::int64_t last_step = 0;
};
SeriesGrowth growth_of(std::span<const std::int64_t> cycles, std::span<const std::int64_t> bytes,
                       double least_growth);

// The number of first points to leave out of n.
std::size_t warm_up_of(std::size_t n);

// Reorders the values. 0 for none.
double median(std::span<double> values);

constexpr std::size_t pairs_of(std::size_t points) { return points < 2 ? 0 : points * (points - 1) / 2; }

// Theil and Sen's slope: the median of the slopes of all pairs, robust to outliers. `work` has room for
// pairs_of(x.size()) values.
double theil_sen_slope(std::span<const double> x, std::span<const double> y, std::span<double> work);

// The same with the interval in which the slope lies with 95 % (Sen 1968, by the normal approximation of
// Kendall's statistic, without its correction for ties). `x` ascends. Absent below kFewestCycles points,
// where the interval would be all slopes.
struct Slope {
  double slope = 0, low = 0, high = 0;
};
std::optional<Slope> slope_with_interval(std::span<const double> x, std::span<const double> y);

// Mann and Kendall's Z under "no trend", corrected for ties; above 1.645 the series grows, with 5 % of
// error. `work` has room for y.size() values.
double mann_kendall_certainty(std::span<const double> y, std::span<double> work);

}  // namespace headroom::monitoring
