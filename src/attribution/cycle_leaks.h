// Finds leaks as memory that stays from cycle to cycle.
//
// Live memory at the end does not prove a leak: caches, singletons and arenas live on purpose, and runtimes
// grow for their first cycles. A program that repeats something (a model's Run, a request, a frame) shows
// leaks: the live memory at the ends of its cycles is compared (series_growth.h).
//
// Memory may be released after the last cycle: garbage that waits for its collection, or results that are
// kept until all are complete. So a place whose memory at the end of the recording is at most that after its
// warm-up does not leak.
//
// A program may repeat several things, one after the other or in turns (the Run of each model). Each is
// judged separately; the worst is the verdict, and contains the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attribution/layer_tree.h"
#include "attribution/live_map.h"
#include "monitoring/series_growth.h"
#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::attribution {

struct StackGrowth {
  StackId stack;
  monitoring::Growth growth = monitoring::Growth::unknown;
  double bytes_per_cycle = 0;                    // after the warm-up
  std::int64_t first_bytes = 0, last_bytes = 0;  // at the ends of the first and the last cycle
  std::int64_t late_bytes = 0;                   // growth after the warm-up; negative if it shrank
  std::int64_t end_bytes = 0;                    // at the end of the recording
  // For grew_then_released: when the growth was released. Set by find_release_times().
  std::optional<Nanoseconds> released_at;

  std::int64_t after_warm_up() const { return last_bytes - late_bytes; }
};

struct LeakVerdict {
  monitoring::Growth growth = monitoring::Growth::unknown;  // the worst of all stacks and of their sum
  std::string cycle{};  // the layer whose ends are compared; empty if nothing repeats
  std::int64_t cycles = 0, warm_up_cycles = 0;
  // Growth of all live memory, or the sum over the leaking stacks if the total hides the leak. Above 0
  // exactly for leaks and for growth that was released.
  double bytes_per_cycle = 0;
  // The cycle of the last step of growth; for a leak, it also means that the leak comes in steps. 0 without
  // distinct steps, and for a leak with every cycle.
  std::int64_t last_step = 0;
  std::int64_t late_bytes = 0;      // growth after the warm-up; negative if it shrank
  std::int64_t released_bytes = 0;  // released after the last cycle, of the growth after the warm-up
  bool is_cut_off = false;          // the recording ends before the program, so releases may be missing
  std::optional<Nanoseconds> released_at{};  // of the last place
  double smallest_visible = 0;               // bytes per cycle; samples hide a slower leak
  std::vector<std::int64_t> live_bytes{};    // at evenly chosen cycle ends
  std::vector<std::int64_t> at_cycles{};     // their cycles, counted from 1
  // Stacks that leak or grew, the fastest first; at least one for a leak or late growth.
  std::vector<StackGrowth> stacks{};
  bool is_sum = false;  // no stack has the verdict alone; the sum of those that grew after the warm-up has it

  bool tells(const StackGrowth& stack) const {
    return is_sum ? stack.late_bytes > 0 : stack.growth == growth;
  }

  // Verdicts on the other layers that repeat, the worst first. None is inside another or inside `cycle`.
  std::vector<LeakVerdict> other_cycles{};
  // In other_cycles: all its leaking stacks also leak over the cycles of the worst verdict. Cycles that come
  // in turns see each other's leaks.
  bool same_places = false;
  std::int64_t cycles_left_out = 0;  // further layers that repeat but were not watched
};

// Memory that exists only because of tracing: profiles, which a runtime keeps until the session is released.
// The first runs of one session may happen during the cycles of another, and are not a leak.
struct TracersOwnMemory {
  std::vector<bool> stacks;  // [StackId]: allocates such memory, in a full recording
  // In a recording of samples these stacks are unknown. Here: when each profile grew, and its maximum size,
  // which the growth of cycles must exceed.
  struct Profile {
    std::int64_t from_ns = 0, to_ns = 0;
    double most_bytes = 0;
  };
  std::vector<Profile> profiles;

  bool allocates(std::uint32_t stack) const { return stack < stacks.size() && stacks[stack]; }
};

// The ends that a layer needs. Its first end is not kept, because most layers are entered once.
inline constexpr std::int64_t kFewestEnds = monitoring::kFewestCycles + 1;

// Watches layers that repeat, and keeps the live memory at up to kMostSamples ends of a few of them. At the
// end, those that repeat often enough and are not inside another such layer are the cycles.
class CycleWatch {
 public:
  // A thread has left `layer` at `time_ns`. `live_bytes`: of the heap; `own_bytes`: of the layer with its
  // inner layers; `live_by_stack(i)`: of stack i, below `stacks`.
  template <class LiveByStack>
  void ended(const LayerTree& layers, LayerIndex layer, std::int64_t time_ns, std::int64_t live_bytes,
             std::int64_t own_bytes, std::size_t stacks, LiveByStack&& live_by_stack) {
    Series* series = count_cycle(layers, layer);
    if (series == nullptr) return;
    Sample& sample = series->samples.emplace_back();
    sample.cycle = series->cycles;
    sample.time_ns = time_ns;
    sample.live_bytes = live_bytes;
    sample.own_bytes = own_bytes;
    for (std::size_t i = 0; i < stacks; ++i)
      if (const std::int64_t bytes = live_by_stack(i); bytes != 0)
        sample.by_stack.push_back({static_cast<std::uint32_t>(i), bytes});
    thin_out(*series);
  }

  // The recording is over. `is_cut_off`: its program may have continued.
  template <class LiveByStack>
  void recording_ended(bool is_cut_off, std::size_t stacks, LiveByStack&& live_by_stack) {
    at_end_ = RecordingEnd{is_cut_off, {}};
    for (std::size_t i = 0; i < stacks; ++i) at_end_->by_stack.push_back(live_by_stack(i));
  }

  // `sample_period`: 0 for a full recording; `sampled[i]`: figures of stack i are estimates.
  LeakVerdict verdict(const LayerTree& layers, std::uint64_t sample_period, const std::vector<bool>& sampled,
                      const TracersOwnMemory& tracers_own = {}) const;

 private:
  static constexpr std::size_t kMostSamples = 48, kMostSeries = 8;
  struct Sample {
    std::int64_t cycle = 0, time_ns = 0, live_bytes = 0, own_bytes = 0;
    std::vector<std::pair<std::uint32_t, std::int64_t>> by_stack;  // not empty, ascending
  };
  struct Series {
    LayerIndex layer = 0;
    std::uint32_t depth = 0;
    std::int64_t cycles = 0, stride = 1;
    std::vector<Sample> samples;
  };
  struct RecordingEnd {
    bool is_cut_off;
    std::vector<std::int64_t> by_stack;
  };
  // A verdict on one series, with its order.
  struct Judged {
    LeakVerdict verdict;
    const Series* series = nullptr;
    double own_growth = 0, growth = 0;  // of leaks, over all cycles: bytes of the layer, of the heap
  };

  // The series for a sample of this cycle, or null if it is not kept.
  Series* count_cycle(const LayerTree& layers, LayerIndex layer);
  Series* series_to_replace(const LayerTree& layers, LayerIndex layer, std::int64_t cycles);
  static void thin_out(Series& series);
  Judged judge(const Series& series, const LayerTree& layers, double noise, const std::vector<bool>& sampled,
               const TracersOwnMemory& tracers_own) const;
  std::int64_t left_out(const LayerTree& layers, const std::vector<const Series*>& judged) const;

  std::vector<Series> series_;
  std::vector<std::int64_t> ends_;      // of each layer
  std::optional<RecordingEnd> at_end_;  // if unknown, everything counts as live
};

// Sets `released_at` of each place that grew and was released, and of their verdicts. One pass; none without
// such places.
void find_release_times(recording::Recording& recording, LeakVerdict& verdict);

}  // namespace headroom::attribution
