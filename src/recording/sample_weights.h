// The weight of a sample, by its size. A sample is recorded with probability 1 − e^(−size/period). Its
// exponential and root would take half of the decoding time, but programs request few different sizes, so
// each result is cached.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "recording/sample_half.h"

namespace headroom::recording {

class SampleWeights {
 public:
  struct Weight {
    std::uint64_t size = 0;  // 0: not computed yet
    double weight = 1;       // allocations that a sample of this size represents
    double alone = 0;        // probability of being only in half A; the same for half B
  };

  // `period_bytes`: of the recording; 0 if nothing is sampled.
  explicit SampleWeights(std::uint64_t period_bytes = 0) : period_(static_cast<double>(period_bytes)) {}

  bool are_needed() const { return period_ > 0; }
  // `size` is not 0. The result is valid until the next call.
  const Weight& of(std::uint64_t size) {
    if (known_.empty()) known_.resize(kCachedSizes);
    Weight& place = known_[size % kCachedSizes];
    if (place.size != size) place = computed(size);
    return place;
  }

 private:
  // A byte is sampled with probability 1/period, so an allocation is sampled with probability 1 −
  // e^(−size/period).
  Weight computed(std::uint64_t size) const {
    const double chance = -std::expm1(-static_cast<double>(size) / period_);
    return {size, 1 / chance, chance_alone(chance)};
  }

  // One entry for each small size, unless --large raises that limit; 96 KiB in total.
  static constexpr std::size_t kCachedSizes = 4096;
  double period_;
  std::vector<Weight> known_;
};

}  // namespace headroom::recording
