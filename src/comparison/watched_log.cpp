#include "comparison/watched_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "comparison/two_sample.h"
#include "monitoring/metric_walk.h"

namespace headroom::comparison {
namespace {

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

bool are_one_log(const WatchedLog& a, const WatchedLog& b) {
  return a.is_whole() && b.is_whole() && a.samples.text() == b.samples.text();
}

std::vector<std::string> problems_of(const WatchedLog& log, const std::string& name) {
  std::vector<std::string> problems;
  const std::int64_t samples = log.figures.samples();
  // The last line of a log that is cut off is in pieces, and of a packed one the rest cannot be unpacked:
  // that is one thing.
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

void clear_changes(std::vector<SeriesChange>& changes) {
  for (SeriesChange& change : changes) {
    change.low = change.high = 0;
    change.differs = change.is_of_trend = false;
    change.doubt = SeriesDoubt::none;
  }
}

}  // namespace headroom::comparison
