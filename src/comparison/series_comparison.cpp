#include "comparison/series_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "comparison/two_sample.h"
#include "monitoring/sample_metrics.h"
#include "types/enum_names.h"

namespace headroom::comparison {
namespace {

// With twenty, a log of a minute has several samples in each batch. The test accounts for longer
// correlations.
constexpr std::size_t kBatches = 20;
constexpr double kFalseAlarms = 0.05, kLeastShare = 0.02;

double largest(const monitoring::SeriesCurve& curve) {
  double most = curve.points().front().max;
  for (const monitoring::SeriesCurve::Point& point : curve.points()) most = std::max(most, point.max);
  return most;
}

double mean_of_points(std::span<const monitoring::SeriesCurve::Point> points) {
  double sum = 0, n = 0;
  for (const monitoring::SeriesCurve::Point& point : points) {
    sum += point.mean * static_cast<double>(point.n);
    n += static_cast<double>(point.n);
  }
  return sum / n;
}

std::vector<double> batches_of(std::span<const monitoring::SeriesCurve::Point> points) {
  const std::size_t batches = std::min(kBatches, points.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < batches; ++i) {
    const std::size_t begin = i * points.size() / batches, end = (i + 1) * points.size() / batches;
    means.push_back(mean_of_points(points.subspan(begin, end - begin)));
  }
  return means;
}

double scale_of(const SeriesChange& change) {
  return std::max(std::abs(change.mean_before), std::abs(change.mean_after));
}

double share_of(const SeriesChange& change) {
  return scale_of(change) > 0 ? std::abs(change.change()) / scale_of(change) : 0;
}

struct Batches {
  std::vector<double> means;
  double seconds = 0;  // of one
  double low = 0, high = 0;

  explicit Batches(const monitoring::SeriesCurve& curve) : means(batches_of(curve.points())) {
    const auto& points = curve.points();
    const double all = (points.back().end - points.front().begin).seconds();
    seconds = std::max(all, 1e-9) / static_cast<double>(means.size());
    low = *std::ranges::min_element(means);
    high = *std::ranges::max_element(means);
  }
  double duration() const { return seconds * static_cast<double>(means.size()); }
};

// Whether two slow series are apart by three times their movement. For equal slow series that is rare: one
// pair in hundreds (two_sample_test.cpp).
bool lie_apart(const Batches& a, const Batches& b) {
  const double gap = std::max(b.low - a.high, a.low - b.high);
  return gap > 3 * ((a.high - a.low) + (b.high - b.low));
}

void compare_means(SeriesChange& change, const Batches& a, const Batches& b, double confidence) {
  const Difference found = welch_of_series(a.means, b.means, confidence);
  change.low = found.low;
  change.high = found.high;
  change.differs = (found.low > 0 || found.high < 0) && share_of(change) >= kLeastShare;
}

void compare_slopes(SeriesChange& change, const Batches& a, const Batches& b, double confidence) {
  const Difference slope = slopes_of_series(a.means, a.seconds, b.means, b.seconds, confidence);
  const double apart = std::abs(slope.estimate) * std::min(a.duration(), b.duration());
  change.is_of_trend = (slope.low > 0 || slope.high < 0) && apart >= kLeastShare * scale_of(change);
  change.differs = change.is_of_trend;
  if (!change.is_of_trend) change.doubt = SeriesDoubt::trend;
}

void compare(SeriesChange& change, const Batches& a, const Batches& b, double confidence) {
  change.rise_before = slope_of_series(a.means) * static_cast<double>(a.means.size());
  change.rise_after = slope_of_series(b.means) * static_cast<double>(b.means.size());
  const SeriesShape of_a = shape_of_series(a.means), of_b = shape_of_series(b.means);
  if (of_a == SeriesShape::level && of_b == SeriesShape::level)
    return compare_means(change, a, b, confidence);
  change.low = b.low - a.high;
  change.high = b.high - a.low;
  // Both logs stay within less than a change.
  const double range = std::max(a.high, b.high) - std::min(a.low, b.low);
  if (range < kLeastShare * scale_of(change)) return;
  if (of_a != SeriesShape::slow && of_b != SeriesShape::slow) return compare_slopes(change, a, b, confidence);
  if (lie_apart(a, b))
    change.differs = share_of(change) >= kLeastShare;
  else
    change.doubt = SeriesDoubt::slow;
}

void add_bits(Fnv1a& hash, const auto& value) {
  hash.add({reinterpret_cast<const char*>(&value), sizeof value});
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::int64_t samples_of(const LogFigures& log, const std::string& figure) {
  const auto curve = log.curves().find(figure);
  std::int64_t samples = 0;
  if (curve != log.curves().end())
    for (const monitoring::SeriesCurve::Point& point : curve->second.points()) samples += point.n;
  return samples;
}

}  // namespace

std::string_view name_of(SeriesDoubt doubt) { return name_in({"", "few_samples", "trend", "slow"}, doubt); }

void LogFigures::add(const SystemSample& sample) {
  ++samples_;
  clock_.add(sample);
  monitoring::for_each_metric(sample, [&](std::string_view name, double value) {
    auto curve = curves_.find(name);
    if (curve == curves_.end()) curve = curves_.emplace(name, monitoring::SeriesCurve()).first;
    curve->second.add(clock_.watched(), value);
  });
}

std::vector<SeriesChange> compare_series(const LogFigures& before, const LogFigures& after) {
  std::vector<SeriesChange> changes;
  for (const auto& [name, curve] : before.curves())
    if (const auto same = after.curves().find(name); same != after.curves().end())
      changes.push_back({name, mean_of_points(curve.points()), mean_of_points(same->second.points()),
                         largest(curve), largest(same->second)});
  const double confidence = 1 - kFalseAlarms / std::max(1.0, static_cast<double>(changes.size()));
  for (SeriesChange& change : changes) {
    const Batches a(before.curves().find(change.name)->second), b(after.curves().find(change.name)->second);
    change.low = change.high = change.change();
    if (std::min(a.means.size(), b.means.size()) < kLeastOfSeries)
      change.doubt = SeriesDoubt::few_samples;
    else
      compare(change, a, b, confidence);
    if (change.is_of_trend) change.low = change.high = change.change();
  }
  const auto rank = [](const SeriesChange& change) {
    return change.differs ? 0 : change.doubt != SeriesDoubt::none ? 1 : 2;
  };
  std::ranges::stable_sort(changes, [&](const SeriesChange& x, const SeriesChange& y) {
    return rank(x) != rank(y) ? rank(x) < rank(y) : share_of(x) > share_of(y);
  });
  return changes;
}

void WatchedLog::add(const SystemSample& sample) {
  bool has_figure = false;
  monitoring::for_each_metric(sample, [&](std::string_view, double) { has_figure = true; });
  if (!has_figure && !sample.unknown_tokens.empty()) {
    ++unread_lines;
    return;
  }
  figures.add(sample);
  add_bits(samples, sample.time.count);
  add_bits(samples, sample.unix_time.value_or(Nanoseconds{}).count);
  monitoring::for_each_metric(sample, [&](std::string_view name, double value) {
    samples.add(name);
    add_bits(samples, value);
  });
}

std::vector<std::string> problems_of(const WatchedLog& log, const std::string& name) {
  std::vector<std::string> problems;
  const std::int64_t samples = log.figures.samples();
  // The last line of a cut log is invalid as well: one problem.
  const std::int64_t lines_of_the_end = log.is_cut ? 1 : 0;
  if (log.is_cut)
    problems.push_back(fmt::format("{} is cut off after {}", name, counted(samples, "sample")));
  else if (log.is_damaged)
    problems.push_back(
        fmt::format("{} is damaged: the data after {} cannot be unpacked", name, counted(samples, "sample")));
  if (log.unread_lines > lines_of_the_end)
    problems.push_back(fmt::format("{} is damaged: {} of its {} {} invalid", name, log.unread_lines,
                                   counted(samples + log.unread_lines, "line"),
                                   log.unread_lines == 1 ? "is" : "are"));
  if (samples < static_cast<std::int64_t>(kLeastOfSeries))
    problems.push_back(fmt::format("{} has only {}", name, counted(samples, "sample")));
  return problems;
}

bool has_enough(const WatchedLog& a, const WatchedLog& b, const std::string& figure) {
  return std::min(samples_of(a.figures, figure), samples_of(b.figures, figure)) >=
         static_cast<std::int64_t>(kLeastOfSeries);
}

}  // namespace headroom::comparison
