// What samples stand for, by their size: one is known by 1 − e^(−size/period), whose exponential and root
// would take half of the time of decoding. A program asks for few different sizes, so each is worked out
// once.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "recording/sample_half.h"

namespace headroom::recording {

class SampleWeights {
 public:
  struct Weight {
    std::uint64_t size = 0;  // 0: not worked out yet
    double weight = 1;       // allocations that a sample of this size stands for
    double alone = 0;        // how likely it is in half A alone, and in half B alone
  };

  // `period_bytes`: of the recording; 0 where nothing is sampled.
  explicit SampleWeights(std::uint64_t period_bytes = 0) : period_(static_cast<double>(period_bytes)) {}

  bool are_needed() const { return period_ > 0; }
  // `size` is not 0. Valid until the next call.
  const Weight& of(std::uint64_t size) {
    if (known_.empty()) known_.resize(kPlaces);
    Weight& place = known_[size % kPlaces];
    if (place.size != size) place = worked_out(size);
    return place;
  }

 private:
  // A byte is sampled with probability 1/period: an allocation of `size` is with 1 − e^(−size/period).
  Weight worked_out(std::uint64_t size) const {
    const double chance = -std::expm1(-static_cast<double>(size) / period_);
    return {size, 1 / chance, chance_alone(chance)};
  }

  static constexpr std::size_t kPlaces = 4096;  // all that is small unless --large says otherwise; 96 KiB
  double period_;
  std::vector<Weight> known_;
};

}  // namespace headroom::recording
