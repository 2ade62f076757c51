// What was allocated in small blocks in all, as far as recordings of samples know it: exactly, for they were
// counted. What is live of them is estimated, and one sample of 100 bytes stands for a whole period (256
// KiB): in a program that allocates less than that, such an estimate says that more is live than ever was
// allocated. So the sum is the most that an estimate may be.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/units.h"
#include "recording/recording.h"

namespace headroom::attribution {

struct SmallAllocations {
  std::int64_t bytes = 0, blocks = 0;
};
// Of a recording in which nothing is estimated: no bound.
inline constexpr SmallAllocations kNoBound{std::numeric_limits<std::int64_t>::max(),
                                           std::numeric_limits<std::int64_t>::max()};

// What was allocated in small blocks until each of these times, which ascend: at least so much as it was. A
// thread counts on for a while before it writes the count down; such a count is taken as a whole for each
// time that lies in its while. One pass.
std::vector<SmallAllocations> small_allocations_until(recording::Recording& recording,
                                                      std::span<const Nanoseconds> times);

// The same over the whole recording: no more can be live at any time. No pass, and no bound, where every
// allocation was recorded.
SmallAllocations bound_of_samples(recording::Recording& recording);

// Brings what samples stand for down to what there can be, each by the same part, so that sums over any
// groups of them still agree.
class BoundedSamples {
 public:
  BoundedSamples() = default;
  // `estimated`: the sum of all samples that are live.
  BoundedSamples(SmallAllocations estimated, SmallAllocations most)
      : bytes_(part(estimated.bytes, most.bytes)), blocks_(part(estimated.blocks, most.blocks)) {}

  bool changes_nothing() const { return bytes_ == 1 && blocks_ == 1; }
  std::int64_t bytes(std::int64_t estimated) const { return times(estimated, bytes_); }
  std::int64_t blocks(std::int64_t estimated) const { return times(estimated, blocks_); }

 private:
  static double part(std::int64_t estimated, std::int64_t most) {
    return estimated > most && estimated > 0 ? static_cast<double>(most) / static_cast<double>(estimated) : 1;
  }
  // Rounded down: the sum must not come out above the bound.
  static std::int64_t times(std::int64_t estimated, double part) {
    return part == 1 ? estimated
                     : static_cast<std::int64_t>(std::floor(static_cast<double>(estimated) * part));
  }

  double bytes_ = 1, blocks_ = 1;
};

}  // namespace headroom::attribution
