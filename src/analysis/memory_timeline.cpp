#include "analysis/memory_timeline.h"

#include <algorithm>

#include "analysis/small_allocations.h"

namespace headroom::analysis {
namespace {

// Of each point so many layers are kept; which are told apart is known at the end only.
constexpr std::size_t kSharesKept = 32;

}  // namespace

TimelineBuilder::TimelineBuilder(std::size_t most_points, Nanoseconds expected_duration)
    : most_points_(std::max<std::size_t>(most_points, 2)),
      // If it lasts longer after all, points are joined two by two.
      width_(
          std::max<std::int64_t>(1, expected_duration.count / static_cast<std::int64_t>(most_points_) + 1)) {}

void TimelineBuilder::begin_point(Nanoseconds time, const LiveBytes& live, std::int64_t mapped,
                                  const LayerLedger& layers) {
  if (number_ >= 0) close_point(live.all, mapped, layers);
  number_ = std::max<std::int64_t>(time.count, 0) / width_;
  while (number_ >= static_cast<std::int64_t>(most_points_)) {
    halve();
    number_ /= 2;
  }
  end_ = (number_ + 1) * width_;
  // The point that halving left half full goes on.
  if (!points_.empty() && points_.back().number == number_) {
    lowest_ = points_.back().lowest;
    if (live.a < lowest_.by_a) lowest_ = {live.a, live.b, live.b_cut};
    highest_ = {live.a, live.b, live.b_cut};
  } else {
    lowest_ = highest_ = {live.a, live.b, live.b_cut};
  }
  ++mark_;
}

void TimelineBuilder::close_point(std::int64_t live, std::int64_t mapped, const LayerLedger& layers) {
  Point point{number_, lowest_, highest_, live, mapped, {}};
  for (LayerIndex i = 0; i < layers.size(); ++i)
    if (const std::int64_t bytes = layers[i].self_in_bucket.bytes_at(mark_); bytes != 0)
      point.shares.emplace_back(i, bytes);
  if (point.shares.size() > kSharesKept) {
    std::nth_element(point.shares.begin(), point.shares.begin() + kSharesKept, point.shares.end(),
                     [](const Share& a, const Share& b) { return a.second > b.second; });
    point.shares.resize(kSharesKept);
  }
  if (!points_.empty() && points_.back().number == number_) {
    Point& before = points_.back();
    if (before.highest.by_a >= point.highest.by_a) {
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
    if (point.lowest.by_a < before.lowest.by_a) before.lowest = point.lowest;
    before.last = point.last;
    before.mapped = point.mapped;
    if (point.highest.by_a > before.highest.by_a) {
      before.highest = point.highest;
      before.shares = std::move(point.shares);
    }
  }
  points_ = std::move(joined);
}

MemoryTimeline TimelineBuilder::finish(std::int64_t live, std::int64_t mapped, const LayerLedger& layers,
                                       std::size_t most_layers) {
  if (number_ >= 0) close_point(live, mapped, layers);
  std::vector<double> weight(layers.size());
  for (const Point& point : points_)
    for (const auto& [layer, bytes] : point.shares) weight[layer] += static_cast<double>(bytes);

  MemoryTimeline timeline;
  timeline.width = {width_};
  for (std::size_t i = 0; i < weight.size(); ++i)
    if (weight[i] > 0) timeline.layers.push_back(i);
  std::sort(timeline.layers.begin(), timeline.layers.end(), [&](std::size_t a, std::size_t b) {
    return weight[a] != weight[b] ? weight[a] > weight[b] : a < b;
  });
  if (timeline.layers.size() > most_layers) timeline.layers.resize(most_layers);

  std::vector<std::size_t> place(layers.size(), timeline.layers.size());
  for (std::size_t i = 0; i < timeline.layers.size(); ++i) place[timeline.layers[i]] = i;
  for (const Point& point : points_) {
    TimelinePoint out{
        {point.number * width_}, point.lowest.bytes, point.highest.bytes, point.last, point.mapped, {}};
    out.layers.assign(timeline.layers.size() + 1, 0);
    std::int64_t rest = point.highest.bytes;
    // The layers' shares were brought down by nothing yet; they are like their sum.
    const BoundedSamples bounded({point.highest.bytes + point.highest.cut, 0}, {point.highest.bytes, 0});
    for (const auto& [layer, bytes] : point.shares) {
      if (place[layer] == timeline.layers.size()) continue;
      out.layers[place[layer]] = bounded.bytes(bytes);
      add_wrapping(rest, -bounded.bytes(bytes));
    }
    out.layers.back() = rest;
    timeline.points.push_back(std::move(out));
  }
  return timeline;
}

}  // namespace headroom::analysis
