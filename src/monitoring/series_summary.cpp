#include "monitoring/series_summary.h"

#include <algorithm>

#include "monitoring/metric_walk.h"

namespace headroom::monitoring {

void SeriesAccumulator::add(const SystemSample& sample) {
  if (!start_) start_ = sample.time;
  const double time = (sample.time - *start_).seconds();
  next_ = 0;
  for_each_metric(sample, [this, time](std::string_view name, double value) {
    if (next_ >= series_.size() || series_[next_].summary.name != name) {
      next_ =
          static_cast<std::size_t>(std::find_if(series_.begin(), series_.end(),
                                                [&](const Series& one) { return one.summary.name == name; }) -
                                   series_.begin());
      if (next_ == series_.size()) {
        series_.emplace_back();
        series_.back().summary = {std::string(name), 0, value, 0, value, value, {}};
      }
    }
    Series& series = series_[next_++];
    SeriesSummary& summary = series.summary;
    ++summary.n;
    const auto n = static_cast<double>(summary.n);
    summary.min = std::min(summary.min, value);
    summary.max = std::max(summary.max, value);
    summary.last = value;
    const double from_time = time - series.mean_time;
    series.mean_time += from_time / n;
    summary.mean += (value - summary.mean) / n;
    series.time_squares += from_time * (time - series.mean_time);
    series.products += from_time * (value - summary.mean);
  });
}

std::vector<SeriesSummary> SeriesAccumulator::summaries() const {
  std::vector<SeriesSummary> summaries;
  for (const Series& series : series_) {
    summaries.push_back(series.summary);
    if (series.summary.n >= 3 && series.time_squares > 0)
      summaries.back().slope_per_second = series.products / series.time_squares;
  }
  return summaries;
}

void SeriesCurve::add(Nanoseconds time, double value) {
  if (!points_.empty() && points_.back().n < samples_a_point_) {
    Point& point = points_.back();
    ++point.n;
    point.end = time;
    point.min = std::min(point.min, value);
    point.max = std::max(point.max, value);
    point.mean += (value - point.mean) / static_cast<double>(point.n);
    return;
  }
  if (points_.size() == kMostPoints) {
    for (std::size_t i = 0; i < kMostPoints / 2; ++i) {
      const Point &a = points_[2 * i], &b = points_[2 * i + 1];
      const auto n = static_cast<double>(a.n + b.n);
      points_[i] = {a.begin,
                    b.end,
                    std::min(a.min, b.min),
                    (a.mean * static_cast<double>(a.n) + b.mean * static_cast<double>(b.n)) / n,
                    std::max(a.max, b.max),
                    a.n + b.n};
    }
    points_.resize(kMostPoints / 2);
    samples_a_point_ *= 2;
  }
  points_.push_back({time, time, value, value, value, 1});
}

}  // namespace headroom::monitoring
