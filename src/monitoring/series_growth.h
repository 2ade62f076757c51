// Does a series of live bytes, one at each end of a cycle, grow?
//
// The slope is Theil and Sen's (the median of the slopes of all pairs), which one odd cycle does not move;
// the first third is left out as warm-up; a leak must grow by the test of Mann and Kendall (one-sided, 5 %),
// reach more new highs than values in random order would (5 %), and still grow in the last half, at a quarter
// of the pace or more. The second test is for what grows ever more rarely, such as a buffer as large as was
// ever asked for: one step of it is a trend to Mann and Kendall, for whom each point that stays up is another
// witness.
//
// What is kept in a container that doubles grows in steps ever further apart, the last of them anywhere
// between half of the run and its end: no slope shows that. So what grew in a step is only said to stay if
// nothing grew in the last three fifths of the run, and what never kept still for so long is a leak, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace headroom::monitoring {

enum class Growth {
  unknown,             // too few cycles
  none,                // what it holds does not grow
  grew_then_stayed,    // it grew, and no longer does
  grew_then_released,  // it grew with the cycles, and what grew was released after them
  grew_late,           // it grew so late that there is no telling whether it stays
  leak,                // it grows with the cycles
};

// "unknown", "none", "grew_then_stayed", "grew_then_released", "grew_late", "leak": as JSON has it.
constexpr std::string_view name_of(Growth growth) {
  switch (growth) {
    case Growth::unknown:
      return "unknown";
    case Growth::none:
      return "none";
    case Growth::grew_then_stayed:
      return "grew_then_stayed";
    case Growth::grew_then_released:
      return "grew_then_released";
    case Growth::grew_late:
      return "grew_late";
    case Growth::leak:
      return "leak";
  }
  return "unknown";
}

inline constexpr std::int64_t kFewestCycles = 5;

// The verdict on one series; `cycles` ascend. `least_growth`: less in all is noise. Fewer than kFewestCycles
// points are Growth::unknown. Never grew_then_released: the series ends with the last cycle.
struct SeriesGrowth {
  Growth growth = Growth::unknown;
  double per_cycle = 0;
  std::size_t warm_up = 0;  // points left out
  // By which cycle it had grown for the last time, and whether the leak comes in steps. 0 where no one step
  // stands out, and of a leak that comes with every cycle.
  std::int64_t last_step = 0;
};
SeriesGrowth growth_of(std::span<const std::int64_t> cycles, std::span<const std::int64_t> bytes,
                       double least_growth);

// Of n points, those left out at the beginning.
std::size_t warm_up_of(std::size_t n);

}  // namespace headroom::monitoring
