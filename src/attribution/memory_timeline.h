// Live memory over time in a bounded number of points, stacked by layer. A point covers a stretch of time and
// keeps its lowest and highest moment, so no peak is lost however long the recording; its layers are those of
// the highest moment, so they add up to it. Where nothing happens after a point, its end lasts longer than
// all of it (a server between two requests), and so the layers of that moment are kept, too. In a recording
// of samples half A says which moments those are and half B what was live then: each point is unbiased,
// though one of them is always the highest by chance. A point's end is told by all samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "attribution/layer_ledger.h"
#include "base/units.h"

namespace headroom::attribution {

struct TimelinePoint {
  Nanoseconds start;
  std::int64_t lowest = 0, highest = 0, last = 0;  // live bytes
  std::int64_t mapped = 0;                         // bytes mapped by the program itself, at its end
  std::vector<std::int64_t> layers;  // at the highest moment; of MemoryTimeline::layers, then the rest
  // The same at its end, adding up to `last`, where no point follows at once; else empty.
  std::vector<std::int64_t> quiet_layers;
};

struct MemoryTimeline {
  Nanoseconds width;                  // each point covers so much, from its start
  std::vector<std::size_t> layers;    // indices of layers, the largest first
  std::vector<TimelinePoint> points;  // ascending; where nothing happened there is none
};

class TimelineBuilder {
 public:
  TimelineBuilder(std::size_t most_points, Nanoseconds expected_duration);

  Mark mark() const { return mark_; }
  bool is_over(Nanoseconds time) const { return time.count >= end_; }
  // Call when is_over(time), before the event at `time` changes anything.
  void begin_point(Nanoseconds time, const LiveBytes& live, std::int64_t mapped, const LayerLedger& layers);
  void changed(const LiveBytes& live) {
    if (live.a > highest_.by_a) {
      highest_ = {live.a, live.b, live.b_cut};
      ++mark_;
    } else if (live.a < lowest_.by_a) {
      lowest_ = {live.a, live.b, live.b_cut};
    }
  }
  // The highest moment of the point that has begun is now, whatever half A says: the peak of the heap.
  void choose_now(const LiveBytes& live) {
    highest_ = {kChosen, live.b, live.b_cut};
    ++mark_;
  }
  MemoryTimeline finish(std::int64_t live, std::int64_t mapped, const LayerLedger& layers,
                        std::size_t most_layers);

 private:
  using Share = std::pair<LayerIndex, std::int64_t>;
  struct Extreme {
    std::int64_t by_a = 0, bytes = 0, cut = 0;
  };
  struct Point {
    std::int64_t number;  // it starts at number × width
    Extreme lowest, highest;
    std::int64_t last, last_cut, mapped;  // the samples' layers have `last_cut` more than `last`
    std::vector<Share> shares, quiet_shares;
  };
  static constexpr std::int64_t kChosen = std::numeric_limits<std::int64_t>::max();
  void close_point(std::int64_t live, std::int64_t mapped, const LayerLedger& layers, bool quiet_after);
  void halve();

  std::size_t most_points_;
  std::int64_t width_, end_ = 0;
  std::int64_t number_ = -1;
  Extreme lowest_, highest_;
  Mark mark_ = 1;
  std::vector<Point> points_;
};

}  // namespace headroom::attribution
