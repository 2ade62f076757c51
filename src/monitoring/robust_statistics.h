// Statistics of a series that odd values do not move.
#pragma once

#include <cstddef>
#include <span>

namespace headroom::monitoring {

// Puts the values in another order. 0 of none.
double median(std::span<double> values);

constexpr std::size_t pairs_of(std::size_t points) { return points < 2 ? 0 : points * (points - 1) / 2; }

// Theil and Sen's: the median of the slopes of all pairs. `work` has room for pairs_of(x.size()) values.
double theil_sen_slope(std::span<const double> x, std::span<const double> y, std::span<double> work);

// Mann and Kendall's Z of S under "no trend", with runs of equal values taken out (Mann 1945, Kendall 1975):
// above 1.645 it grows, with 5 % of error. `work` has room for y.size() values.
double mann_kendall_certainty(std::span<const double> y, std::span<double> work);

}  // namespace headroom::monitoring
