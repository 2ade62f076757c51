// Live memory over time in a bounded number of points, stacked by layer. A point covers a stretch of time and
// keeps its lowest and highest moment, so no peak is lost however long the recording; its layers are those of
// the highest moment, so they add up to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/layer_ledger.h"
#include "base/units.h"

namespace headroom::analysis {

struct TimelinePoint {
  Nanoseconds start;
  std::int64_t lowest = 0, highest = 0, last = 0;  // live bytes
  std::int64_t mapped = 0;                         // bytes mapped by the program itself, at its end
  std::vector<std::int64_t> layers;  // at the highest moment; of MemoryTimeline::layers, then the rest
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
  void begin_point(Nanoseconds time, std::int64_t live, std::int64_t mapped, const LayerLedger& layers);
  void changed(std::int64_t live) {
    if (live > highest_) {
      highest_ = live;
      ++mark_;
    } else if (live < lowest_) {
      lowest_ = live;
    }
  }
  MemoryTimeline finish(std::int64_t live, std::int64_t mapped, const LayerLedger& layers,
                        std::size_t most_layers);

 private:
  using Share = std::pair<LayerIndex, std::int64_t>;
  struct Point {
    std::int64_t number, lowest, highest, last, mapped;  // it starts at number × width
    std::vector<Share> shares;
  };
  void close_point(std::int64_t live, std::int64_t mapped, const LayerLedger& layers);
  void halve();

  std::size_t most_points_;
  std::int64_t width_, end_ = 0;
  std::int64_t number_ = -1, lowest_ = 0, highest_ = 0;
  Mark mark_ = 1;
  std::vector<Point> points_;
};

}  // namespace headroom::analysis
