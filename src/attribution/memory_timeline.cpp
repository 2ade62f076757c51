#include "attribution/memory_timeline.h"

#include <algorithm>

#include "attribution/sampled_peak.h"

namespace headroom::attribution {
namespace {

using Share = std::pair<LayerIndex, std::int64_t>;

// Layers kept for each point. Which of them are shown separately is known only at the end.
constexpr std::size_t kSharesKept = 32;

// The layers with the most bytes, by `bytes_of`.
template <class BytesOf>
std::vector<Share> largest_shares(const LayerLedger& layers, BytesOf bytes_of) {
  std::vector<Share> shares;
  for (LayerIndex i = 0; i < layers.size(); ++i)
    if (const std::int64_t bytes = bytes_of(layers[i]); bytes != 0) shares.emplace_back(i, bytes);
  if (shares.size() > kSharesKept) {
    std::nth_element(shares.begin(), shares.begin() + kSharesKept, shares.end(),
                     [](const Share& a, const Share& b) { return a.second > b.second; });
    shares.resize(kSharesKept);
  }
  return shares;
}

// The bytes of each layer of the timeline, then the rest; the sum is `whole`. The shares are not limited yet:
// their sum is larger by `cut`.
std::vector<std::int64_t> bytes_by_layer(const std::vector<Share>& shares,
                                         const std::vector<std::size_t>& place, std::size_t count,
                                         std::int64_t whole, std::int64_t cut) {
  std::vector<std::int64_t> layers(count + 1);
  std::int64_t rest = whole;
  const BoundedSamples bounded({whole + cut, 0}, {whole, 0});
  for (const auto& [layer, bytes] : shares) {
    if (place[layer] == count) continue;
    layers[place[layer]] = bounded.bytes(bytes);
    add_wrapping(rest, -bounded.bytes(bytes));
  }
  layers.back() = rest;
  return layers;
}

}  // namespace

TimelineBuilder::TimelineBuilder(std::size_t most_points, Nanoseconds expected_duration)
    : most_points_(std::max<std::size_t>(most_points, 2)),
      // If the recording is longer than expected, pairs of points are joined.
      width_(
          std::max<std::int64_t>(1, expected_duration.count / static_cast<std::int64_t>(most_points_) + 1)) {}

void TimelineBuilder::begin_point(Nanoseconds time, const LiveBytes& live, std::int64_t mapped,
                                  const LayerLedger& layers) {
  const std::int64_t next = std::max<std::int64_t>(time.count, 0) / width_;
  if (number_ >= 0) close_point(live.all, mapped, layers, next > number_ + 1);
  number_ = next;
  while (number_ >= static_cast<std::int64_t>(most_points_)) {
    halve();
    number_ /= 2;
  }
  end_ = (number_ + 1) * width_;
  // A point that halve() left half full continues.
  if (!points_.empty() && points_.back().number == number_) {
    lowest_ = points_.back().lowest;
    if (live.a < lowest_.a) lowest_ = live;
    highest_ = live;
  } else {
    lowest_ = highest_ = live;
  }
  ++mark_;
}

void TimelineBuilder::close_point(std::int64_t live, std::int64_t mapped, const LayerLedger& layers,
                                  bool quiet_after) {
  Point point{number_, lowest_, highest_, live, 0, mapped, {}, {}};
  point.shares = largest_shares(
      layers, [this](const LayerAccount& layer) { return layer.self_in_bucket.bytes_at(mark_); });
  if (quiet_after) {
    for (LayerIndex i = 0; i < layers.size(); ++i) add_wrapping(point.last_cut, layers[i].self.live.bytes);
    add_wrapping(point.last_cut, -live);
    point.quiet_shares =
        largest_shares(layers, [](const LayerAccount& layer) { return layer.self.live.bytes; });
  }
  if (!points_.empty() && points_.back().number == number_) {
    Point& before = points_.back();
    if (before.highest.a >= point.highest.a) {
      point.highest = before.highest;
      point.shares = std::move(before.shares);
    }
    before = std::move(point);
  } else {
    points_.push_back(std::move(point));
  }
}

void TimelineBuilder::halve() {
  width_ *= 2;
  std::vector<Point> joined;
  for (Point& point : points_) {
    point.number /= 2;
    if (joined.empty() || joined.back().number != point.number) {
      joined.push_back(std::move(point));
      continue;
    }
    Point& before = joined.back();
    if (point.lowest.a < before.lowest.a) before.lowest = point.lowest;
    before.last = point.last;
    before.last_cut = point.last_cut;
    before.mapped = point.mapped;
    before.quiet_shares = std::move(point.quiet_shares);
    if (point.highest.a > before.highest.a) {
      before.highest = point.highest;
      before.shares = std::move(point.shares);
    }
  }
  points_ = std::move(joined);
}

MemoryTimeline TimelineBuilder::finish(std::int64_t live, std::int64_t mapped, const LayerLedger& layers,
                                       std::size_t most_layers) {
  if (number_ >= 0) close_point(live, mapped, layers, true);
  std::vector<double> weight(layers.size());
  for (const Point& point : points_)
    for (const std::vector<Share>* shares : {&point.shares, &point.quiet_shares})
      for (const auto& [layer, bytes] : *shares) weight[layer] += static_cast<double>(bytes);

  MemoryTimeline timeline;
  timeline.width = {width_};
  for (std::size_t i = 0; i < weight.size(); ++i)
    if (weight[i] > 0) timeline.layers.push_back(i);
  std::ranges::sort(timeline.layers, [&](std::size_t a, std::size_t b) {
    return weight[a] != weight[b] ? weight[a] > weight[b] : a < b;
  });
  if (timeline.layers.size() > most_layers) timeline.layers.resize(most_layers);

  const std::size_t count = timeline.layers.size();
  std::vector<std::size_t> place(layers.size(), count);
  for (std::size_t i = 0; i < count; ++i) place[timeline.layers[i]] = i;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const Point& point = points_[i];
    TimelinePoint out{
        {point.number * width_}, point.lowest.b, point.highest.b, point.last, point.mapped, {}, {}};
    out.layers = bytes_by_layer(point.shares, place, count, point.highest.b, point.highest.b_cut);
    // Joining points may have closed a gap.
    if (i + 1 == points_.size() || points_[i + 1].number > point.number + 1)
      out.quiet_layers = bytes_by_layer(point.quiet_shares, place, count, point.last, point.last_cut);
    timeline.points.push_back(std::move(out));
  }
  return timeline;
}

}  // namespace headroom::attribution
