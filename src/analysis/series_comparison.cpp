#include "analysis/series_comparison.h"

#include <algorithm>
#include <cmath>

#include "analysis/metric_walk.h"
#include "analysis/two_sample.h"

namespace headroom::analysis {
namespace {

// So few that a log of a minute has several samples in each; what makes neighbours alike for longer is left
// to the test.
constexpr std::size_t kBatches = 20;
constexpr double kFalseAlarms = 0.05, kLeastShare = 0.02;

double largest(const SeriesCurve& curve) {
  double most = curve.points().front().max;
  for (const SeriesCurve::Point& point : curve.points()) most = std::max(most, point.max);
  return most;
}

double mean_of(const SeriesCurve& curve) {
  double sum = 0, n = 0;
  for (const SeriesCurve::Point& point : curve.points()) {
    sum += point.mean * static_cast<double>(point.n);
    n += static_cast<double>(point.n);
  }
  return sum / n;
}

std::vector<double> batches_of(const SeriesCurve& curve) {
  const auto& points = curve.points();
  const std::size_t batches = std::min(kBatches, points.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < batches; ++i) {
    double sum = 0, n = 0;
    for (std::size_t p = i * points.size() / batches; p < (i + 1) * points.size() / batches; ++p) {
      sum += points[p].mean * static_cast<double>(points[p].n);
      n += static_cast<double>(points[p].n);
    }
    means.push_back(sum / n);
  }
  return means;
}

double share_of(const SeriesChange& change) {
  const double scale = std::max(std::abs(change.mean_before), std::abs(change.mean_after));
  return scale > 0 ? std::abs(change.change()) / scale : 0;
}

}  // namespace

void LogFigures::add(const SystemSample& sample) {
  if (samples_++ == 0) begin_ = sample.time;
  end_ = std::max(end_, sample.time);
  for_each_metric(sample, [&](std::string_view name, double value) {
    auto curve = curves_.find(name);
    if (curve == curves_.end()) curve = curves_.emplace(name, SeriesCurve()).first;
    curve->second.add(sample.time, value);
  });
}

std::vector<SeriesChange> compare_series(const LogFigures& before, const LogFigures& after) {
  std::vector<SeriesChange> changes;
  for (const auto& [name, curve] : before.curves())
    if (const auto same = after.curves().find(name); same != after.curves().end())
      changes.push_back({name, mean_of(curve), mean_of(same->second), largest(curve), largest(same->second)});
  const double confidence = 1 - kFalseAlarms / std::max(1.0, static_cast<double>(changes.size()));
  for (SeriesChange& change : changes) {
    const auto a = batches_of(before.curves().find(change.name)->second);
    const auto b = batches_of(after.curves().find(change.name)->second);
    change.low = change.high = change.change();
    if (std::min(a.size(), b.size()) < kLeastOfSeries) continue;
    const Difference found = welch_of_series(a, b, confidence);
    change.low = found.low;
    change.high = found.high;
    change.differs = (found.low > 0 || found.high < 0) && share_of(change) >= kLeastShare;
  }
  std::stable_sort(changes.begin(), changes.end(), [](const SeriesChange& x, const SeriesChange& y) {
    return x.differs != y.differs ? x.differs : share_of(x) > share_of(y);
  });
  return changes;
}

}  // namespace headroom::analysis
