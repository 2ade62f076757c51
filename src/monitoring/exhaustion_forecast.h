// When will a memory be used up, if it goes on as it did?
//
// What is used is kept as the highest value of each stretch of time, in levels: each level has the last 64
// stretches, those of the next one twice as long. So a week in stretches of a second takes 15 levels and
// 16 KiB, and both a leak of the last minute and one of the last day can be seen.
//
// The longest level that explains what came last decides: a line through its first three quarters (Theil and
// Sen's slope, which odd values do not move) must hold for the last quarter within what those quarters
// scattered by. If something new began, only shorter levels can explain it. So the saw teeth of a garbage
// collector are noise around a line, and no tooth is taken for a leak. The level must then grow by the test
// of Mann and Kendall and still grow in its last half; where two lines, one for each half, fit clearly better
// than one, the second is followed. What is used meets the limit when the line and what scatters above it do.
//
// Measured on made-up series: tests/unit/monitoring/exhaustion_forecast_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"

namespace headroom::monitoring {

// What grows, and by how much.
struct SteadyGrowth {
  double bytes_per_second = 0;
  double top = 0;           // where the line and what scatters above it are at the last sample
  Nanoseconds looked_back;  // what the slope rests on
  Nanoseconds level;        // the length of the level that shows it
  friend bool operator==(const SteadyGrowth&, const SteadyGrowth&) = default;
};

// When it will be used up. Said no further ahead than twice the length of the level that shows the growth.
struct Exhaustion {
  double bytes_per_second = 0;
  Nanoseconds left;         // from the last sample until nothing is left
  Nanoseconds looked_back;  // what the slope rests on
  friend bool operator==(const Exhaustion&, const Exhaustion&) = default;
};

class ExhaustionForecast {
 public:
  // `stretch`: the shortest, in which the samples count as one. Not below the time between two samples.
  explicit ExhaustionForecast(Nanoseconds stretch = {1'000'000'000}) : stretch_(stretch.count) {}

  // `time` ascends; what is earlier than the last sample is left out. Allocates nothing but a level each time
  // that the history has doubled.
  void add(Nanoseconds time, Bytes used);

  // Nothing if there is none, or too little was seen (12 stretches). Takes about 0.1 ms for a level that it
  // looks at: not for each sample.
  std::optional<SteadyGrowth> growth() const;
  // With so much in all. Nothing where there is no growth, or it reaches beyond what can be said.
  std::optional<Exhaustion> forecast(Bytes limit) const;

 private:
  static constexpr std::size_t kStretches = 64;
  // A ring.
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
