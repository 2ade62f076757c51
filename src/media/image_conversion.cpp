#include <algorithm>
#include <cmath>
#include <vector>

#include "media/image_header.h"

namespace headroom::media {
namespace {

constexpr std::int64_t kFrame = 3;  // bytes per pixel of 8-bit BGR

// Bytes per pixel for the decoder's own picture and its conversion to 8 bits. A turned JPEG or TIFF needs
// none: it is decoded in strips.
std::int64_t conversion(const ImageHeader& header) {
  const bool turned = header.orientation != 1;
  if (header.bits <= 8) return turned && header.format == ImageFormat::png ? kFrame : 0;
  const std::int64_t channels = header.channels == 1 ? 1 : 3;
  // The samples, for floats a copy for the percentiles, and the scaled samples if they are not the frame.
  const std::int64_t sample = header.bits <= 16 && !header.is_float ? 2 : 4 + 4;
  return channels * sample + (channels == 1 ? 1 : turned ? kFrame : 0);
}

constexpr double kLowPercentile = 0.01, kHighPercentile = 0.99;

std::size_t rank(double percentile, std::size_t count) {
  return static_cast<std::size_t>(percentile * static_cast<double>(count - 1));
}

// Maps the range of the values to 0..255. `value_at` gives the value at an index of the sorted values.
class Scale {
 public:
  template <class ValueAt>
  Scale(std::size_t count, const ValueAt& value_at)
      : low_(value_at(rank(kLowPercentile, count))), high_(value_at(rank(kHighPercentile, count))) {
    if (low_ < high_) return;
    // In a uniform scene with a small hot spot both percentiles are equal. Then use the extremes; otherwise
    // the hot spot would be lost.
    low_ = value_at(0);
    high_ = value_at(count - 1);
  }
  std::uint8_t operator()(double value) const {
    if (!(value > low_)) return 0;  // also NaN
    if (low_ >= high_) return 0;    // a constant frame
    if (value >= high_) return 255;
    return static_cast<std::uint8_t>(std::lround((value - low_) * 255.0 / (high_ - low_)));
  }

 private:
  double low_, high_;
};

}  // namespace

Bytes decoding_memory(const ImageHeader& header, Bytes file) {
  const std::int64_t pixels = std::int64_t{header.width} * header.height;
  return file + Bytes{pixels * (kFrame + conversion(header)) + header.decoder_bytes};
}

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
  const Scale scale(values.size(), value_at);
  std::vector<std::uint8_t> table(65536);
  for (std::size_t value = 0; value < table.size(); ++value) table[value] = scale(static_cast<double>(value));
  std::ranges::transform(values, scaled, [&](std::uint16_t value) { return table[value]; });
}

void scale_to_8_bit(std::span<const float> values, std::uint8_t* scaled) {
  std::vector<float> finite;
  finite.reserve(values.size());
  std::ranges::copy_if(values, std::back_inserter(finite), [](float v) { return std::isfinite(v); });
  if (finite.empty()) {
    std::fill_n(scaled, values.size(), std::uint8_t{0});
    return;
  }
  const auto value_at = [&](std::size_t wanted) {
    const auto nth = finite.begin() + static_cast<std::ptrdiff_t>(wanted);
    std::nth_element(finite.begin(), nth, finite.end());
    return static_cast<double>(*nth);
  };
  const Scale scale(finite.size(), value_at);
  std::ranges::transform(values, scaled, [&](float value) { return scale(double{value}); });
}

}  // namespace headroom::media
