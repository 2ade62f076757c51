// What a log of samples showed: each metric's minimum, mean, maximum and slope, and a curve of bounded size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "types/sample.h"

namespace headroom::monitoring {

struct SeriesSummary {
  std::string name;  // as for_each_metric has it
  std::int64_t n = 0;
  double min = 0, mean = 0, max = 0, last = 0;
  std::optional<double> slope_per_second;  // of the least squares; absent below three samples
};

// Keeps no sample: a week costs what a minute does.
class SeriesAccumulator {
 public:
  void add(const SystemSample& sample);
  std::vector<SeriesSummary> summaries() const;

 private:
  struct Series {
    SeriesSummary summary;
    // Of the times (since the first sample) and of the values with them, by Welford.
    double mean_time = 0, time_squares = 0, products = 0;
  };
  std::vector<Series> series_;
  std::size_t next_ = 0;  // where the next metric stands, as the order does not change
  std::optional<Nanoseconds> start_;
};

// A value over time in at most kMostPoints points. When there are more, two become one, which keeps their
// mean and their extremes, so a short peak is never lost.
class SeriesCurve {
 public:
  static constexpr std::size_t kMostPoints = 1024;
  struct Point {
    Nanoseconds begin, end;
    double min = 0, mean = 0, max = 0;
    std::int64_t n = 0;  // samples; only a point without any is empty
  };
  void add(Nanoseconds time, double value);
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
  std::int64_t samples_a_point_ = 1;
};

}  // namespace headroom::monitoring
