// The weight of a sample, and its half.
//
// Splits the samples into two halves (docs/recording-format.md). The largest of many estimates is biased
// upwards: chance helped it to be the largest. So a peak that the same samples both choose and measure comes
// out too high. Here half A chooses the time of the peak. Half B is independent of that choice, and measures
// the memory that was live then.
//
// A coin toss assigns each sampled byte to a half. So each half is a sample with twice the period P of the
// recording, and the halves are independent. An allocation of s bytes is in a half with probability
// 1 − e^(−s/2P), and its weight there is the inverse. A large allocation may be in both halves.
//
// The coin is a hash of the recording's start time and the record's position. So every reader gets the same
// result, two runs of a program get different ones, and neither size nor address influences it.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "types/memory_event.h"

namespace headroom::recording {

// SplitMix64.
inline std::uint64_t mixed(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

// A uniformly distributed number in [0, 1). `key`: mixed() of the file's first_realtime_ns. `offset`: where
// the record starts, counted from the segment's first record.
inline double coin_of_record(std::uint64_t key, std::uint64_t segment_number, std::uint64_t offset) {
  return static_cast<double>(mixed(key + (segment_number << 32) + offset) >> 11) * 0x1p-53;
}

// The probability that a sample is only in half A: r/(1 + r) with r = e^(−s/2P). It is only in half B with
// the same probability, and otherwise in both. `chance`: the probability of the sample, 1 − e^(−s/P).
inline double chance_alone(double chance) {
  const double missed = std::sqrt(1 - chance);
  return missed / (1 + missed);
}
// `alone`: the sample's chance_alone().
inline SampleHalf half_of_sample(double alone, double coin) {
  // Computed without a branch: the coin is unpredictable, so a branch would be mispredicted half of the time.
  const int is_alone = coin < 2 * alone ? 1 : 0, is_in_a = coin < alone ? 1 : 0;
  return static_cast<SampleHalf>(2 * is_alone - is_in_a);
}

// The weight of a sample, by its size. A sample is recorded with probability 1 − e^(−size/period). Its
// exponential and root would take half of the decoding time, but programs request few different sizes, so
// each result is cached.
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
