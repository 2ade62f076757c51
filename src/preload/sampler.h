// Chooses the small allocations to record as samples. Each byte is chosen with probability 1/period, so the
// distance to the next chosen byte is exponentially distributed and memoryless. An allocation of `size` bytes
// is recorded with probability 1 − e^(−size/period). Weighting samples with the inverse gives unbiased
// estimates.
#pragma once

#include <cstdint>

namespace headroom::preload {

// log2 of a number above 0, accurate to 1e-7: the mantissa's part is a series in (m−1)/(m+1).
inline double log2_of(std::uint64_t value) {
  const int exponent = 63 - __builtin_clzll(value);
  const double mantissa = static_cast<double>(value) / static_cast<double>(std::uint64_t{1} << exponent);
  const double z = (mantissa - 1) / (mantissa + 1), z2 = z * z;
  const double ln = 2 * z * (1 + z2 * (1.0 / 3 + z2 * (1.0 / 5 + z2 * (1.0 / 7 + z2 * (1.0 / 9 + z2 / 11)))));
  return exponent + ln * 1.4426950408889634;
}

class Sampler {
 public:
  void start(std::uint64_t seed, std::uint64_t period) {
    random_ = (seed ^ 0x2545f4914f6cdd1d) * 0x9e3779b97f4a7c15 | 1;
    period_ = period;
    draw();
  }
  // Returns whether one of these bytes is chosen.
  bool chooses(std::uint64_t bytes) {
    if (__builtin_expect(bytes < left_, 1)) {
      left_ -= bytes;
      return false;
    }
    draw();
    return true;
  }
  // Returns true if none of these bytes is chosen. If one is, changes nothing: then call chooses().
  bool passes(std::uint64_t bytes) {
    if (__builtin_expect(bytes >= left_, 0)) return false;
    left_ -= bytes;
    return true;
  }

 private:
  [[gnu::noinline, gnu::cold]] void draw() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    constexpr double kLn2 = 0.6931471805599453;
    const double uniform_log2 = log2_of((random_ >> 11) + 1) - 53;  // of a number in (0, 1]
    left_ = static_cast<std::uint64_t>(-uniform_log2 * kLn2 * static_cast<double>(period_)) + 1;
  }

  std::uint64_t left_ = 0;  // bytes until the next chosen one
  std::uint64_t random_ = 0, period_ = 0;
};

}  // namespace headroom::preload
