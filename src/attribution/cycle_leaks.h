// Leaks, by what stays from cycle to cycle.
//
// What is live at the end is no proof of a leak: caches, singletons and arenas live on purpose, and runtimes
// grow for their first cycles. A program that repeats something (a model's Run, a request, a frame) shows it:
// at each end of the cycle, what it holds is compared (series_growth.h). Where two places let a container
// grow by turns, their stacks are judged together.
//
// The ends of cycles tell nothing of what comes after the last one: of garbage that waits for its collection,
// or of results that are kept until all are there. So a place that holds no more at the end of the recording
// than when its warm-up was over does not leak.
//
// A program may repeat several things, one after the other or in turns (the Run of each of its models). Each
// is judged by itself; the worst is the verdict, and the others are told with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attribution/layer_tree.h"
#include "attribution/live_counter.h"
#include "monitoring/series_growth.h"
#include "types/memory_event.h"

namespace headroom::attribution {

struct StackGrowth {
  StackId stack;
  monitoring::Growth growth = monitoring::Growth::unknown;
  double bytes_per_cycle = 0;                    // after the warm-up
  std::int64_t first_bytes = 0, last_bytes = 0;  // at the first cycle's end and at the last's
  std::int64_t late_bytes = 0;                   // what it grew by after the warm-up; below 0 if it shrank
  std::int64_t end_bytes = 0;                    // at the end of the recording
  // Of grew_then_released: since when it holds no more than at the end. Set by find_release_times().
  std::optional<Nanoseconds> released_at;

  std::int64_t after_warm_up() const { return last_bytes - late_bytes; }
};

struct LeakVerdict {
  monitoring::Growth growth =
      monitoring::Growth::unknown;  // of all that is live and of each stack: the worst of them
  std::string cycle;                // the layer whose ends were compared; empty if nothing repeats
  std::int64_t cycles = 0, warm_up_cycles = 0;
  // Of all that is live; of a leak that does not show in that, the sum over the stacks that leak. Above 0 for
  // every leak and of what grew like one until it was released, and only for those.
  double bytes_per_cycle = 0;
  // By which cycle it had grown for the last time, and whether the leak comes in steps. 0 where no one step
  // stands out, and of a leak that comes with every cycle.
  std::int64_t last_step = 0;
  std::int64_t late_bytes = 0;      // what it grew by after the warm-up; below 0 if it shrank
  std::int64_t released_bytes = 0;  // of what grew after the warm-up, after the last cycle
  bool is_cut_off = false;  // of what grew: the recording ends before its program, so a release may not show
  std::optional<Nanoseconds> released_at;  // the last of its places
  double smallest_visible = 0;             // bytes a cycle; of samples, a slower leak would not be seen
  std::vector<std::int64_t> live_bytes;    // at cycle ends, evenly chosen
  std::vector<std::int64_t> at_cycles;     // which those were, counted from 1
  // Those that leak or grew, the fastest first. Of what leaks or grew late there is at least one.
  std::vector<StackGrowth> stacks;
  bool is_sum = false;  // no place has the verdict by itself: those that grew after the warm-up have it

  bool tells(const StackGrowth& stack) const {
    return is_sum ? stack.late_bytes > 0 : stack.growth == growth;
  }

  // Of the verdict on a recording: those on the other layers that repeat, the worst first. None lies within
  // another or within `cycle`.
  std::vector<LeakVerdict> other_cycles;
  // Of one of those: it leaks (or did, until it was released), and only by stacks that do so over the worst
  // one's cycles as well. Cycles that
  // come in turns see each other's leaks.
  bool same_places = false;
  std::int64_t cycles_left_out = 0;  // more of such layers, which were not watched
};

// What is live for the tracer's sake: profiles of itself that it had a runtime write, which the runtime keeps
// until the session is released. One session's first runs may come in the midst of another's cycles, and are
// no leak.
struct TracersOwnMemory {
  std::vector<bool> stacks;  // [StackId]: allocates it, in a full recording
  // In a recording of samples, where such stacks are not known: when each profile grew, and to how much at
  // most. Cycles must grow by more.
  struct Profile {
    std::int64_t from_ns = 0, to_ns = 0;
    double most_bytes = 0;
  };
  std::vector<Profile> profiles;

  bool allocates(std::uint32_t stack) const { return stack < stacks.size() && stacks[stack]; }
};

// How often a layer must have ended: what is live at its first end is not kept, since most are entered once.
inline constexpr std::int64_t kFewestEnds = monitoring::kFewestCycles + 1;

// Watches the layers that repeat and keeps what was live at up to kMostSamples ends of a few of them. Which
// of them are cycles is decided at the end: those that repeat often enough, and lie in no other such layer.
class CycleWatch {
 public:
  // A thread has left `layer` at `time_ns`. `live_bytes`: of the whole heap; `own_bytes`: of the layer and
  // those inside it. `live_by_stack(i)` gives the bytes of stack i, of `stacks` stacks.
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

  // The recording is over. `is_cut_off`: its program went on, or may have.
  template <class LiveByStack>
  void recording_ended(bool is_cut_off, std::size_t stacks, LiveByStack&& live_by_stack) {
    at_end_ = RecordingEnd{is_cut_off, {}};
    for (std::size_t i = 0; i < stacks; ++i) at_end_->by_stack.push_back(live_by_stack(i));
  }

  // `sample_period`: of a recording of samples, or 0; `sampled[i]`: stack i was estimated.
  LeakVerdict verdict(const LayerTree& layers, std::uint64_t sample_period, const std::vector<bool>& sampled,
                      const TracersOwnMemory& tracers_own = {}) const;

 private:
  static constexpr std::size_t kMostSamples = 48, kMostSeries = 8, kMostTurns = 64;
  struct Sample {
    std::int64_t cycle = 0, time_ns = 0, live_bytes = 0, own_bytes = 0;
    std::vector<std::pair<std::uint32_t, std::int64_t>> by_stack;  // those that hold anything, ascending
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
  // A verdict on one series, with what orders them.
  struct Judged {
    LeakVerdict verdict;
    const Series* series = nullptr;
    double own_growth = 0, growth = 0;  // bytes over all cycles, of leaks: of the layer itself, of the heap
  };

  // The series to add a sample to, or null if this cycle is not kept.
  Series* count_cycle(const LayerTree& layers, LayerIndex layer);
  Series* series_to_replace(const LayerTree& layers, LayerIndex layer, std::int64_t cycles);
  static void thin_out(Series& series);
  Judged judge(const Series& series, const LayerTree& layers, double noise, const std::vector<bool>& sampled,
               const TracersOwnMemory& tracers_own) const;
  std::int64_t left_out(const LayerTree& layers, const std::vector<const Series*>& judged) const;

  std::vector<Series> series_;
  std::vector<std::int64_t> ends_;      // of each layer
  std::optional<RecordingEnd> at_end_;  // where it is not known, all is taken to stay
};

}  // namespace headroom::attribution
