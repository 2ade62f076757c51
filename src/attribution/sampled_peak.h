// The peak of a recording of samples, and limits of what its samples can represent.
//
// Half A of the samples chooses the time of the peak (recording/sample_weights.h), and half B measures what
// was live then. So the figure is not too large by the luck of the choice.
//
// All small allocations are counted, so their sum is exact. What is live of them is estimated, and one sample
// of 100 bytes represents a whole period (256 KiB). In a program that allocates less than that, the estimate
// could exceed everything that was ever allocated. So the counted sum is an upper limit of each estimate.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "attribution/live_map.h"
#include "base/units.h"
#include "recording/recording.h"

namespace headroom::attribution {

struct SmallAllocations {
  std::int64_t bytes = 0, blocks = 0;
};
// For a recording without estimates.
inline constexpr SmallAllocations kNoBound{std::numeric_limits<std::int64_t>::max(),
                                           std::numeric_limits<std::int64_t>::max()};

// The small allocations up to each of these times, which ascend: never less than the real number. A thread
// counts for a while before it records the count; such a count belongs to each time within that while. One
// pass.
std::vector<SmallAllocations> small_allocations_until(recording::Recording& recording,
                                                      std::span<const Nanoseconds> times);

// The same over the whole recording: no more can be live at any time. A full recording has no limit and needs
// no pass.
SmallAllocations bound_of_samples(recording::Recording& recording);

struct SampledPeak {
  Nanoseconds moment;
  SmallAllocations until_peak, in_all;  // upper limits at the moment, and at any time
};

// The middle of the first period in which half A is at its maximum: half A knows nothing between two changes,
// and at either edge the program usually grows or shrinks. The state after the last event at or before the
// moment counts. Two passes; nothing if no samples exist, because then every moment is exact.
std::optional<SampledPeak> find_sampled_peak(recording::Recording& recording);

// The sum of the live blocks that are samples of this half.
SmallAllocations sampled_live(const LiveMap& live, SampleHalf half);

// Reduces what samples represent to an upper limit, all by the same factor, so that sums over any groups
// still agree.
class BoundedSamples {
 public:
  BoundedSamples() = default;
  // `estimated`: the sum of all live samples.
  BoundedSamples(SmallAllocations estimated, SmallAllocations most)
      : bytes_(part(estimated.bytes, most.bytes)), blocks_(part(estimated.blocks, most.blocks)) {}

  bool changes_nothing() const { return bytes_ == 1 && blocks_ == 1; }
  std::int64_t bytes(std::int64_t estimated) const { return times(estimated, bytes_); }
  std::int64_t blocks(std::int64_t estimated) const { return times(estimated, blocks_); }

 private:
  static double part(std::int64_t estimated, std::int64_t most) {
    return estimated > most && estimated > 0 ? static_cast<double>(most) / static_cast<double>(estimated) : 1;
  }
  // Rounds down, because the sum must not exceed the limit.
  static std::int64_t times(std::int64_t estimated, double part) {
    return part == 1 ? estimated
                     : static_cast<std::int64_t>(std::floor(static_cast<double>(estimated) * part));
  }

  double bytes_ = 1, blocks_ = 1;
};

// What a live block represents in a half of the samples; 0 variance if it was recorded individually.
struct MeasuredBlock {
  std::int64_t bytes = 0, blocks = 0;
  double bytes_variance = 0, blocks_variance = 0;
};

// Calls use(block, measured) for the blocks of this half. The samples are reduced to `most`.
template <class Use>
void measure_live(const LiveMap& live, SampleHalf half, SmallAllocations most, Use&& use) {
  const BoundedSamples bounded(sampled_live(live, half), most);
  live.for_each([&](const LiveBlock& block) {
    MeasuredBlock measured{block.bytes_in(half), block.blocks_in(half)};
    if (measured.blocks == 0) return;
    if (block.weight != 1) {
      const double weight = half == SampleHalf::both ? block.weight : block.half_weight();
      measured.bytes_variance = sample_variance(weight, measured.bytes);
      measured.blocks_variance = sample_variance(weight, measured.blocks);
      measured.bytes = bounded.bytes(measured.bytes);
      measured.blocks = bounded.blocks(measured.blocks);
    }
    use(block, measured);
  });
}

}  // namespace headroom::attribution
