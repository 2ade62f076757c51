// The two halves of the samples (docs/recording-format.md). The largest of many estimates is the one that
// chance favoured most, so a peak that the same samples choose and tell comes out too high. Here one half
// chooses the moment, and the other, which knows nothing of the choice, tells what was live.
//
// Each sampled byte belongs to one half by the toss of a coin. So each half is a sample with twice the
// period, and the two are independent: an allocation of s bytes is in each with probability 1 − e^(−s/2P) and
// stands for the inverse there. One of many bytes may be in both. The coins are a hash of when the recording
// began and of the record's place in it: every reader tosses the same, two runs of a program do not, and
// neither size nor address has a say.
#pragma once

#include <cmath>
#include <cstdint>

#include "model/memory_event.h"

namespace headroom::recording {

// SplitMix64.
inline std::uint64_t mixed(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

// A number of [0, 1), evenly distributed. `key`: mixed() of the file's first_realtime_ns; `offset` is where
// the record begins, from the first record of its segment.
inline double coin_of_record(std::uint64_t key, std::uint64_t segment_number, std::uint64_t offset) {
  return static_cast<double>(mixed(key + (segment_number << 32) + offset) >> 11) * 0x1p-53;
}

// Of a sample that was chosen with this probability 1 − e^(−s/P). With r = e^(−s/2P) it is in half A alone
// with probability r/(1 + r), in half B alone with as much, and else in both.
inline double chance_alone(double chance) {
  const double missed = std::sqrt(1 - chance);
  return missed / (1 + missed);
}
// `alone`: chance_alone() of it.
inline SampleHalf half_of_sample(double alone, double coin) {
  // As a sum, since no processor foresees the coin: a branch on it would be missed every second time.
  const int is_alone = coin < 2 * alone ? 1 : 0, is_in_a = coin < alone ? 1 : 0;
  return static_cast<SampleHalf>(2 * is_alone - is_in_a);
}

}  // namespace headroom::recording
