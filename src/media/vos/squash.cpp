#include "media/vos/squash.h"

#include <algorithm>
#include <cmath>

namespace headroom::media::vos {
namespace {

constexpr int kPrecision = 22;
constexpr double kSupport = 2.0;

double cubic(double x) {
  constexpr double kSlope = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kSlope + 2) * x - (kSlope + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kSlope;
  return 0;
}

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kPrecision, 0, 255));
}

}  // namespace

void Squasher::make(Filter& filter, int from) const {
  if (filter.from == from) return;
  filter.from = from;
  const double scale = static_cast<double>(from) / side_;
  const double widening = std::max(scale, 1.0), support = kSupport * widening;
  filter.taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  const auto positions = static_cast<std::size_t>(side_), taps = static_cast<std::size_t>(filter.taps);
  filter.first.assign(positions, 0);
  filter.count.assign(positions, 0);
  filter.weights.assign(positions * taps, 0);
  std::vector<double> exact(taps);
  for (std::size_t i = 0; i < positions; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const double low = centre - support + 0.5, high = centre + support + 0.5;
    const int first = std::max(0, static_cast<int>(low));
    const int count = std::min(from, static_cast<int>(high)) - first;
    double sum = 0;
    for (int k = 0; k < count; ++k)
      sum += exact[static_cast<std::size_t>(k)] = cubic((k + first - centre + 0.5) * (1.0 / widening));
    filter.first[i] = first;
    filter.count[i] = count;
    for (int k = 0; k < count; ++k) {
      const double weight = exact[static_cast<std::size_t>(k)] * (1.0 / sum) * (1 << kPrecision);
      filter.weights[i * taps + static_cast<std::size_t>(k)] =
          static_cast<std::int32_t>(weight + (weight < 0 ? -0.5 : 0.5));
    }
  }
}

void Squasher::run(const std::uint8_t* bgr, int width, int height, std::span<std::uint8_t> planes) {
  make(across_, width);
  make(down_, height);
  const auto side = static_cast<std::size_t>(side_);
  const std::size_t narrow_row = side * 3, wide_row = static_cast<std::size_t>(width) * 3;
  narrow_.resize(narrow_row * static_cast<std::size_t>(height));
  constexpr std::int32_t kHalf = 1 << (kPrecision - 1);
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y)
    for (std::size_t x = 0; x < side; ++x) {
      const std::uint8_t* in = bgr + y * wide_row + static_cast<std::size_t>(across_.first[x]) * 3;
      const std::int32_t* weight = &across_.weights[x * static_cast<std::size_t>(across_.taps)];
      std::int32_t blue = kHalf, green = kHalf, red = kHalf;
      for (int k = 0; k < across_.count[x]; ++k, in += 3) {
        blue += in[0] * weight[k];
        green += in[1] * weight[k];
        red += in[2] * weight[k];
      }
      std::uint8_t* out = &narrow_[y * narrow_row + x * 3];
      out[0] = to_byte(blue);
      out[1] = to_byte(green);
      out[2] = to_byte(red);
    }
  std::vector<std::int32_t> sums(narrow_row);
  for (std::size_t y = 0; y < side; ++y) {
    std::ranges::fill(sums, kHalf);
    const std::int32_t* weight = &down_.weights[y * static_cast<std::size_t>(down_.taps)];
    for (int k = 0; k < down_.count[y]; ++k) {
      const std::uint8_t* in = &narrow_[static_cast<std::size_t>(down_.first[y] + k) * narrow_row];
      for (std::size_t i = 0; i < narrow_row; ++i) sums[i] += in[i] * weight[k];
    }
    for (std::size_t x = 0; x < side; ++x)
      for (std::size_t channel = 0; channel < 3; ++channel)
        planes[(channel * side + y) * side + x] = to_byte(sums[x * 3 + 2 - channel]);
  }
}

}  // namespace headroom::media::vos
