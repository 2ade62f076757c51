#include "media/depth_scaling.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace headroom::media {
namespace {

constexpr double kLowPercentile = 0.01, kHighPercentile = 0.99;

std::size_t rank(double percentile, std::size_t count) {
  return static_cast<std::size_t>(percentile * static_cast<double>(count - 1));
}

struct Range {
  double low, high;
};

// In a uniform scene with a small hot spot both percentiles are equal. Then use the extremes; otherwise the
// hot spot would be lost.
Range range_of(double low, double high, double least, double most) {
  return low < high ? Range{low, high} : Range{least, most};
}

std::uint8_t scale(double value, double low, double high) {
  if (!(value > low)) return 0;  // also NaN, and a constant frame's values
  if (value >= high) return 255;
  return static_cast<std::uint8_t>(std::lround((value - low) * 255.0 / (high - low)));
}

}  // namespace

// Exact percentiles from a histogram, then one table look-up per value: no sorting, and no floating point
// per pixel.
void scale_to_8_bit(std::span<const std::uint16_t> values, std::uint8_t* scaled) {
  if (values.empty()) return;
  std::vector<std::size_t> histogram(65536);
  for (const std::uint16_t value : values) ++histogram[value];
  const auto value_at = [&](std::size_t wanted) {
    std::size_t seen = 0;
    std::size_t value = 0;
    while ((seen += histogram[value]) <= wanted) ++value;
    return static_cast<double>(value);
  };
  const Range range =
      range_of(value_at(rank(kLowPercentile, values.size())), value_at(rank(kHighPercentile, values.size())),
               value_at(0), value_at(values.size() - 1));
  std::vector<std::uint8_t> table(65536);
  for (std::size_t value = 0; value < table.size(); ++value)
    table[value] = range.low < range.high ? scale(static_cast<double>(value), range.low, range.high) : 0;
  std::transform(values.begin(), values.end(), scaled, [&](std::uint16_t value) { return table[value]; });
}

void scale_to_8_bit(std::span<const float> values, std::uint8_t* scaled) {
  std::vector<float> finite;
  finite.reserve(values.size());
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](float v) { return std::isfinite(v); });
  if (finite.empty()) {
    std::fill_n(scaled, values.size(), std::uint8_t{0});
    return;
  }
  const auto value_at = [&](std::size_t wanted) {
    const auto nth = finite.begin() + static_cast<std::ptrdiff_t>(wanted);
    std::nth_element(finite.begin(), nth, finite.end());
    return static_cast<double>(*nth);
  };
  const Range range =
      range_of(value_at(rank(kLowPercentile, finite.size())), value_at(rank(kHighPercentile, finite.size())),
               value_at(0), value_at(finite.size() - 1));
  std::transform(values.begin(), values.end(), scaled, [&](float value) {
    return range.low < range.high ? scale(static_cast<double>(value), range.low, range.high)
                                  : std::uint8_t{0};
  });
}

}  // namespace headroom::media
