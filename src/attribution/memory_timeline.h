// Accounts of layers, and live memory over time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "attribution/heap_fragmentation.h"
#include "attribution/layer_tree.h"
#include "attribution/live_map.h"
#include "base/units.h"

namespace headroom::attribution {

// A sum by both halves of the samples, and its peak: the maximum by half A, measured by half B. Without
// samples both halves are the same.
struct PeakOfHalves {
  std::int64_t a = 0;
  std::int64_t b_over_a = 0;  // changes with samples only, so it costs nothing for exact events
  std::int64_t most_a = 0, at_most = 0;

  std::int64_t b() const {
    std::int64_t sum = a;
    add_wrapping(sum, b_over_a);
    return sum;
  }
  void change(std::int64_t by_a, std::int64_t by_b) {
    add_wrapping(a, by_a);
    if (by_b != by_a) add_wrapping(b_over_a, by_b - by_a);
  }
  void note() {
    if (a > most_a) note(a, b());
  }
  void note(std::int64_t of_a, std::int64_t of_b) {
    if (of_a <= most_a) return;
    most_a = of_a;
    at_most = of_b;
  }
  void join(const PeakOfHalves& other) { note(other.most_a, other.at_most); }
};

// Live memory of a stack, layer, size class or thread, with the variance of estimates at the peak and the
// end.
struct LiveAccount {
  LiveCounter live;
  double peak_variance = 0, end_variance = 0;
};

struct LayerAccount {
  LiveAccount self;            // without inner layers; saved at the peak of the heap
  LiveCounter self_in_bucket;  // saved at the highest moment of the timeline's point, by half B
  // With the inner layers.
  PeakOfHalves held, reserved;
  double wasted_sum = 0, reserved_sum = 0;
  // Without inner layers, which are added at the end.
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;
  PeakOfHalves process;
  std::int64_t entries = 0, time_ns = 0;
  LayerIndex parent = 0;
  bool visited = false;  // a thread was in the layer itself, not only in an inner layer
  bool is_tracers_own = false;
};

class LayerLedger {
 public:
  explicit LayerLedger(const recording::Recording& recording) : tree_(recording) { adopt_new_layers(); }

  LayerIndex layer_of(ScopeId scope) {
    const LayerIndex layer = tree_.of(scope);
    if (layer >= accounts_.size()) adopt_new_layers();
    return layer;
  }
  LayerAccount& operator[](LayerIndex layer) { return accounts_[layer]; }
  const LayerAccount& operator[](LayerIndex layer) const { return accounts_[layer]; }
  const LayerTree& tree() const { return tree_; }
  std::size_t size() const { return accounts_.size(); }

  // Calls use(share) with what the block represents. There are two calls: in the one for exact blocks, the
  // compiler knows that the halves are equal and merges most sums.
  template <class Use>
  static void with_share(const LiveBlock& block, Use&& use) {
    const auto more = static_cast<std::int64_t>(chunk_bytes(block.size) - block.size);
    if (block.weight == 1) return use(LiveShare::of_exact(block, more));
    use(LiveShare::of_sample(block, more));
  }
  // `share`: of this block.
  void allocated(const LiveBlock& block, const LiveShare& share, Mark peak, Mark bucket) {
    const LiveBytes &bytes = share.bytes, &chunks = share.with_more;
    for (LayerIndex layer = change_self(block, bytes, share.blocks, peak, bucket);;
         layer = accounts_[layer].parent) {
      LayerAccount& account = accounts_[layer];
      account.held.change(bytes.a, bytes.b);
      account.reserved.change(chunks.a, chunks.b);
      account.held.note();
      account.reserved.note();
      account.wasted_sum += static_cast<double>(account.reserved.b()) - static_cast<double>(account.held.b());
      account.reserved_sum += static_cast<double>(account.reserved.b());
      if (account.parent == 0) break;
    }
  }
  void released(const LiveBlock& block, const LiveShare& share, Mark peak, Mark bucket) {
    const LiveBytes &bytes = share.bytes, &chunks = share.with_more;
    for (LayerIndex layer = change_self(block, -bytes, -share.blocks, peak, bucket);;
         layer = accounts_[layer].parent) {
      LayerAccount& account = accounts_[layer];
      account.held.change(-bytes.a, -bytes.b);
      account.reserved.change(-chunks.a, -chunks.b);
      if (account.parent == 0) break;
    }
  }
  void begin_saved(Mark peak) {
    for (LayerAccount& account : accounts_) account.self.live.begin_saved(peak);
  }

 private:
  LayerIndex change_self(const LiveBlock& block, const LiveBytes& bytes, std::int64_t blocks, Mark peak,
                         Mark bucket) {
    accounts_[block.layer].self.live.change(bytes.all, blocks, peak);
    accounts_[block.layer].self_in_bucket.change(bytes.b, blocks, bucket);
    return block.layer;
  }
  void adopt_new_layers() {
    for (std::size_t i = accounts_.size(); i < tree_.size(); ++i) {
      const Layer& layer = tree_[static_cast<LayerIndex>(i)];
      LayerAccount& account = accounts_.emplace_back();
      account.parent = layer.parent;
      account.is_tracers_own = layer.name == recording::kTracerScope;
    }
  }

  LayerTree tree_;
  std::vector<LayerAccount> accounts_;
};

struct TimelinePoint {
  Nanoseconds start;
  std::int64_t lowest = 0, highest = 0, last = 0;  // live bytes
  std::int64_t mapped = 0;                         // bytes that the program mapped itself, at the point's end
  std::vector<std::int64_t> layers;  // at the highest moment: MemoryTimeline::layers, then the rest
  // The same at the point's end, with the sum `last`. Empty if the next point follows at once.
  std::vector<std::int64_t> quiet_layers;
};

// Live memory over time, stacked by layer. The number of points is limited. A point keeps its lowest and
// highest moment, so no peak is lost, however long the recording is. Its layers are those of the highest
// moment, so they add up to it. If no event follows a point, its end lasts longer than the point (a server
// between two requests), so the layers of that moment are kept too. In a recording of samples, half A chooses
// these moments and half B measures them, so no point is biased. All samples measure a point's end.
struct MemoryTimeline {
  Nanoseconds width;                  // duration of a point
  std::vector<std::size_t> layers;    // indices of layers, the largest first
  std::vector<TimelinePoint> points;  // ascending; a period without events has no point
};

class TimelineBuilder {
 public:
  TimelineBuilder(std::size_t most_points, Nanoseconds expected_duration);

  Mark mark() const { return mark_; }
  bool is_over(Nanoseconds time) const { return time.count >= end_; }
  // Call when is_over(time), before the event at `time` changes anything.
  void begin_point(Nanoseconds time, const LiveBytes& live, std::int64_t mapped, const LayerLedger& layers);
  void changed(const LiveBytes& live) {
    if (live.a > highest_.a) {
      highest_ = live;
      ++mark_;
    } else if (live.a < lowest_.a) {
      lowest_ = live;
    }
  }
  // Makes this moment the highest of the current point, whatever half A has: the peak of the heap.
  void choose_now(const LiveBytes& live) {
    highest_ = live;
    highest_.a = kChosen;
    ++mark_;
  }
  MemoryTimeline finish(std::int64_t live, std::int64_t mapped, const LayerLedger& layers,
                        std::size_t most_layers);

 private:
  using Share = std::pair<LayerIndex, std::int64_t>;
  struct Point {
    std::int64_t number;                  // the point starts at number × width
    LiveBytes lowest, highest;            // by half A
    std::int64_t last, last_cut, mapped;  // the layers by samples add up to last + last_cut
    std::vector<Share> shares, quiet_shares;
  };
  static constexpr std::int64_t kChosen = std::numeric_limits<std::int64_t>::max();
  void close_point(std::int64_t live, std::int64_t mapped, const LayerLedger& layers, bool quiet_after);
  void halve();

  std::size_t most_points_;
  std::int64_t width_, end_ = 0;
  std::int64_t number_ = -1;
  LiveBytes lowest_, highest_;
  Mark mark_ = 1;
  std::vector<Point> points_;
};

}  // namespace headroom::attribution
