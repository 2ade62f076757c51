// What a device held over time, in a bounded number of points. A point covers a stretch of time and keeps its
// lowest and highest moment, so no peak is lost however long the recording; where nothing happened there is
// none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace headroom::attribution {

struct DeviceCurvePoint {
  Nanoseconds start;
  std::int64_t lowest = 0, highest = 0, last = 0;  // bytes
};

struct DeviceCurve {
  Nanoseconds width;                     // each point covers so much, from its start
  std::vector<DeviceCurvePoint> points;  // ascending
};

class DeviceCurveBuilder {
 public:
  // If it lasts longer than expected after all, points are joined two by two.
  DeviceCurveBuilder(std::size_t most_points, Nanoseconds expected_duration);

  // `before` was held until this moment, `now` is from it on.
  void changed(std::int64_t time, std::int64_t before, std::int64_t now);
  DeviceCurve finish() const;

 private:
  struct Point {
    std::int64_t number, lowest, highest, last;  // it starts at number × width
  };
  void halve();

  std::int64_t most_points_, width_;
  std::vector<Point> points_;
};

}  // namespace headroom::attribution
