#include "attribution/device_curve.h"

#include <algorithm>

namespace headroom::attribution {

DeviceCurveBuilder::DeviceCurveBuilder(std::size_t most_points, Nanoseconds expected_duration)
    : most_points_(static_cast<std::int64_t>(std::max<std::size_t>(most_points, 2))),
      width_(std::max<std::int64_t>(1, expected_duration.count / most_points_ + 1)) {}

void DeviceCurveBuilder::changed(std::int64_t time, std::int64_t before, std::int64_t now) {
  time = std::max<std::int64_t>(time, 0);
  while (time / width_ >= most_points_) halve();
  const std::int64_t number = time / width_;
  if (points_.empty() || points_.back().number < number) points_.push_back({number, before, before, before});
  Point& point = points_.back();
  point.lowest = std::min(point.lowest, now);
  point.highest = std::max(point.highest, now);
  point.last = now;
}

void DeviceCurveBuilder::halve() {
  width_ *= 2;
  std::vector<Point> joined;
  for (Point& point : points_) {
    point.number /= 2;
    if (joined.empty() || joined.back().number != point.number) {
      joined.push_back(point);
      continue;
    }
    Point& before = joined.back();
    before.lowest = std::min(before.lowest, point.lowest);
    before.highest = std::max(before.highest, point.highest);
    before.last = point.last;
  }
  points_ = std::move(joined);
}

DeviceCurve DeviceCurveBuilder::finish() const {
  DeviceCurve curve{{width_}, {}};
  for (const Point& point : points_)
    curve.points.push_back({{point.number * width_}, point.lowest, point.highest, point.last});
  return curve;
}

}  // namespace headroom::attribution
