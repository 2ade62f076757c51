// Leaks, by what stays from cycle to cycle.
//
// What is live at the end is no proof of a leak: caches, singletons and arenas live on purpose, and runtimes
// grow for their first cycles. A program that repeats something (a model's Run, a request, a frame) shows it:
// at each end of the cycle, what it holds is compared. The slope is Theil and Sen's (the median of the slopes
// of all pairs), which one odd cycle does not move; the first third is left out as warm-up; a leak must grow
// by the test of Mann and Kendall (one-sided, 5 %) and still grow in the last half.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/layer_tree.h"
#include "analysis/live_counter.h"
#include "model/memory_event.h"

namespace headroom::analysis {

enum class Growth {
  unknown,           // too few cycles
  none,              // what it holds does not grow
  grew_then_stayed,  // it grew, and no longer does
  leak,              // it grows with the cycles
};

// "unknown", "none", "grew_then_stayed", "leak": as JSON has it.
constexpr std::string_view name_of(Growth growth) {
  switch (growth) {
    case Growth::unknown:
      return "unknown";
    case Growth::none:
      return "none";
    case Growth::grew_then_stayed:
      return "grew_then_stayed";
    case Growth::leak:
      return "leak";
  }
  return "unknown";
}

struct StackGrowth {
  StackId stack;
  Growth growth = Growth::unknown;
  double bytes_per_cycle = 0;                    // after the warm-up
  std::int64_t first_bytes = 0, last_bytes = 0;  // at the first cycle's end and at the last's
};

struct LeakVerdict {
  Growth growth = Growth::unknown;  // of all together: the worst of them
  std::string cycle;                // the layer whose ends were compared; empty if nothing repeats
  std::int64_t cycles = 0, warm_up_cycles = 0;
  double bytes_per_cycle = 0;
  double smallest_visible = 0;           // bytes a cycle; of samples, a slower leak would not be seen
  std::vector<std::int64_t> live_bytes;  // at cycle ends, evenly chosen
  std::vector<std::int64_t> at_cycles;   // which those were, counted from 1
  std::vector<StackGrowth> stacks;       // those that leak or grew, the fastest first
};

inline constexpr std::int64_t kFewestCycles = 5;

// The verdict on one series; `cycles` ascend. `least_growth`: less in all is noise. Fewer than kFewestCycles
// points are Growth::unknown.
struct SeriesGrowth {
  Growth growth = Growth::unknown;
  double per_cycle = 0;
  std::size_t warm_up = 0;  // points left out
};
SeriesGrowth growth_of(std::span<const std::int64_t> cycles, std::span<const std::int64_t> bytes,
                       double least_growth);

// Watches the layers that repeat and keeps what was live at up to kMostSamples ends of a few of them. Which
// of them is "the cycle" is decided at the end: the outermost that repeats often enough.
class CycleWatch {
 public:
  // A thread has left `layer`. `live_by_stack(i)` gives the bytes of stack i, of `stacks` stacks.
  template <class LiveByStack>
  void ended(LayerIndex layer, std::uint32_t depth, std::int64_t live_bytes, std::size_t stacks,
             LiveByStack&& live_by_stack) {
    Series* series = count_cycle(layer, depth);
    if (series == nullptr) return;
    Sample& sample = series->samples.emplace_back();
    sample.cycle = series->cycles;
    sample.live_bytes = live_bytes;
    sample.by_stack.resize(stacks);
    for (std::size_t i = 0; i < stacks; ++i) sample.by_stack[i] = live_by_stack(i);
    thin_out(*series);
  }

  // `sample_period`: of a recording of samples, or 0; `sampled[i]`: stack i was estimated.
  LeakVerdict verdict(const LayerTree& layers, std::uint64_t sample_period,
                      const std::vector<bool>& sampled) const;

 private:
  static constexpr std::size_t kMostSamples = 48, kMostSeries = 3;
  struct Sample {
    std::int64_t cycle = 0, live_bytes = 0;
    std::vector<std::int64_t> by_stack;
  };
  struct Series {
    LayerIndex layer = 0;
    std::uint32_t depth = 0;
    std::int64_t cycles = 0, stride = 1;
    std::vector<Sample> samples;
  };

  // The series to add a sample to, or null if this cycle is not kept.
  Series* count_cycle(LayerIndex layer, std::uint32_t depth);
  static void thin_out(Series& series);

  std::vector<Series> series_;
  std::vector<std::int64_t> ends_;  // of each layer
};

}  // namespace headroom::analysis
