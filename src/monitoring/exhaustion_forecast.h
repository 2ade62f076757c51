// Forecasts when memory will be exhausted if it grows as before.
//
// The highest value of each stretch of time is kept, in levels of 64 stretches. A stretch of the next level
// is twice as long, so a week in stretches of a second takes 15 levels and 16 KiB.
//
// The longest level that explains the newest values decides: a line through its first three quarters (Theil
// and Sen's slope) must hold for the last quarter, within the scatter of those quarters. So the saw teeth
// of a garbage collector are noise around a line. The level must grow by the test of Mann and Kendall, also
// in its last half. If two lines, one for each half, fit clearly better than one, the second is used.
// Memory is exhausted when the line and the scatter above it reach the limit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"

namespace headroom::monitoring {

struct SteadyGrowth {
  double bytes_per_second = 0;
  double top = 0;     // where the line and what scatters above it are at the last sample
  Nanoseconds level;  // the length of the level that shows it
};

class ExhaustionForecast {
 public:
  // `stretch`: the shortest, at least the time between two samples.
  explicit ExhaustionForecast(Nanoseconds stretch = {1'000'000'000}) : stretch_(stretch.count) {}

  // `time` ascends; earlier samples are ignored. Allocates only when the history has doubled.
  void add(Nanoseconds time, Bytes used);

  // Nothing without growth, or with fewer than 12 stretches. Takes about 0.1 ms per level, so not for each
  // sample.
  std::optional<SteadyGrowth> growth() const;
  // The time from the last sample until `limit` is reached. Nothing without growth, or if it is further ahead
  // than twice the length of the level that shows the growth.
  std::optional<Nanoseconds> forecast(Bytes limit) const;

 private:
  static constexpr std::size_t kStretches = 64;
  // A ring buffer.
  struct Level {
    std::int64_t length = 0;  // of a stretch, in nanoseconds
    std::array<std::int64_t, kStretches> number{};
    std::array<std::int64_t, kStretches> most{};
    std::size_t first = 0, count = 0;
  };
  struct Points;
  static void add(Level& level, std::int64_t time, std::int64_t used);
  static Points points_of(const Level& level);

  std::int64_t stretch_;
  std::int64_t begin_ = 0, last_ = 0;
  std::vector<Level> levels_;
};

}  // namespace headroom::monitoring
