#include "report/history/history_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/units.h"
#include "base/utf8.h"
#include "comparison/gate.h"
#include "report/page.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace comparison;
using history::KeptRun;

struct Extent {
  double low = 0, high = 0;
};

// From the lowest to the highest value, and at least a tenth of the highest, so that runs that hardly differ
// do not look like growth. The page does the same (web/src/charts/time_chart.tsx).
Extent extent_of(const HistorySeries& series) {
  Extent extent{series.points.front().values.front(), series.points.front().values.back()};
  for (const HistoryPoint& point : series.points) {
    extent.low = std::min(extent.low, point.values.front());
    extent.high = std::max(extent.high, point.values.back());
  }
  const double missing = std::max(0.0, extent.high / 10 - (extent.high - extent.low));
  return {extent.low - missing / 2, extent.high + missing / 2};
}

// The place of a point's runs in the extent: "   ──●─   ".
std::string mark_of(const HistoryPoint& point, const Extent& extent, int width) {
  const auto column = [&](double value) {
    const double share = extent.high > extent.low ? (value - extent.low) / (extent.high - extent.low) : 0.5;
    return static_cast<int>(std::lround(share * (width - 1)));
  };
  const int low = column(point.values.front()), high = column(point.values.back());
  const int middle = column(point.median());
  std::string text;
  for (int i = 0; i <= high; ++i) text += i == middle ? "●" : i < low ? " " : "─";
  return text;
}

// The points of a series by their commits: of thousands each run finds its own.
class PointsByCommit {
 public:
  // The place of a commit's point, by whichever of its forms it is known; absent where it has none yet.
  std::optional<std::size_t> find(const std::string& commit) const {
    if (commit.empty()) return std::nullopt;  // without a commit each run is a point of its own
    // Names that begin with it lie one behind the other, "1a2b3c4-dirty", another one, among them.
    for (auto next = places_.lower_bound(commit); next != places_.end() && next->first.starts_with(commit);
         ++next)
      if (history::is_same_commit(next->first, commit)) return next->second;
    for (std::size_t size = commit.size(); size-- > 1;)
      if (const auto shorter = places_.find(commit.substr(0, size));
          shorter != places_.end() && history::is_same_commit(shorter->first, commit))
        return shorter->second;
    return std::nullopt;
  }
  void add(const std::string& commit, std::size_t place) {
    if (!commit.empty()) places_.emplace(commit, place);
  }

 private:
  std::map<std::string, std::size_t> places_;
};

}  // namespace

std::string short_commit(const std::string& commit) {
  constexpr int kShown = 10;
  return commit.empty() ? std::string(kAbsent) : first_columns(commit, kShown);
}

double HistoryPoint::median() const {
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<HistorySeries> history_series(const std::vector<KeptRun>& runs) {
  std::vector<HistorySeries> all;
  std::map<std::string, std::size_t> by_name;
  std::vector<PointsByCommit> points;  // of each series
  const bool one_host =
      std::ranges::all_of(runs, [&](const KeptRun& run) { return run.host == runs.front().host; });
  const bool one_label =
      std::ranges::all_of(runs, [&](const KeptRun& run) { return run.label == runs.front().label; });
  for (const KeptRun& run : runs)
    for (const history::KeptFigure& figure : run.figures) {
      // What two boards take is no one figure, and neither is what two branches do.
      std::string name = figure.model;
      if (!one_host) name += fmt::format(" on {}", run.host);
      if (!one_label) name += run.label.empty() ? ", no label" : fmt::format(", label {}", run.label);
      const auto [known, is_new] = by_name.emplace(name, all.size());
      if (is_new) {
        all.push_back({name, {}});
        points.emplace_back();
      }
      HistorySeries& series = all[known->second];
      PointsByCommit& places = points[known->second];
      const std::size_t place = places.find(run.commit).value_or(series.points.size());
      if (place == series.points.size()) series.points.push_back({run.commit, run.label, run.started_at, {}});
      places.add(run.commit, place);
      HistoryPoint& point = series.points[place];
      if (run.commit.size() > point.commit.size()) point.commit = run.commit;  // the whole SHA
      point.values.insert(std::ranges::upper_bound(point.values, figure.value), figure.value);
    }
  return all;
}

std::string history_list_to_terminal(const std::vector<KeptRun>& runs, bool color, int width) {
  std::vector<Column> columns{
      {"STARTED", 0, false}, {"RUN", 0, true}, {"COMMIT", 0, false}, {"LABEL", 2, false}, {"HOST", 1, false}};
  for (const KeptRun& run : runs) {
    columns[0].cells.push_back(without_control_characters(without_fraction(run.started_at)));
    columns[1].cells.push_back(fmt::format("{}", run.id));
    columns[2].cells.push_back(short_commit(run.commit));
    columns[3].cells.push_back(without_control_characters(run.label));
    columns[4].cells.push_back(without_control_characters(run.host));
  }
  fit_columns(columns, width, 25);
  return table_of(columns, color);
}

Json history_list_to_json(const std::vector<KeptRun>& runs) {
  const auto row_of = [](const KeptRun& run) {
    Json row = {{"run", run.id}, {"started_at", run.started_at}, {"added_at", run.added_at}};
    set_if(row, "commit", run.commit);
    set_if(row, "label", run.label);
    row["host"] = run.host;
    return row;
  };
  return {{"schema_version", kHistorySchemaVersion}, {"runs", json_list(runs, row_of)}};
}

std::string history_plot_to_terminal(const comparison::RunMetric& metric,
                                     const std::vector<HistorySeries>& all, bool color, int width) {
  std::string text = fmt::format("{}: {}\n", metric.name, metric.help);
  for (const HistorySeries& series : all) {
    const Extent extent = extent_of(series);
    std::vector<Column> columns{
        {"COMMIT", 0, false},
        {"STARTED", 1, false},
        {"RUNS", 2, true},
        {"MEDIAN", 0, true},
        {"CHANGE", 0, true},
        {fmt::format("{} to {}", words_for(metric, extent.low), words_for(metric, extent.high)), 0, false}};
    std::optional<double> before;
    for (const HistoryPoint& point : series.points) {
      columns[0].cells.push_back(short_commit(point.commit));
      columns[1].cells.push_back(first_columns(point.started_at, 16));
      columns[2].cells.push_back(fmt::format("{}", point.values.size()));
      columns[3].cells.push_back(words_for(metric, point.median()));
      columns[4].cells.push_back(before && *before != 0 ? comparison::percent_words(point.median() / *before)
                                                        : "");
      columns[5].cells.push_back(mark_of(point, extent, std::clamp(width - 66, 10, 40)));
      before = point.median();
    }
    text += "\n" + painted(without_control_characters(series.model), kBold, color) + "\n";
    fit_columns(columns, width, 10);
    text += table_of(columns, color);
  }
  return text;
}

std::string history_plot_to_html(const comparison::RunMetric& metric, const std::vector<HistorySeries>& all) {
  Json json = history_plot_to_json(metric, all);
  json["help"] = metric.help;
  return page_with_data(Page::history, {{"history", to_line(json)}});
}

Json history_plot_to_json(const comparison::RunMetric& metric, const std::vector<HistorySeries>& all) {
  const auto point_of = [](const HistoryPoint& point) {
    Json row;
    set_if(row, "commit", point.commit);
    set_if(row, "label", point.label);
    row["started_at"] = point.started_at;
    row["median"] = point.median();
    row["values"] = point.values;
    return row;
  };
  return {{"schema_version", kHistorySchemaVersion},
          {"metric", metric.name},
          {"unit", metric.unit == comparison::MetricUnit::bytes         ? "bytes"
                   : metric.unit == comparison::MetricUnit::nanoseconds ? "ns"
                   : metric.unit == comparison::MetricUnit::per_second  ? "per_second"
                                                                        : "count"},
          {"models", json_list(all, [&](const HistorySeries& series) -> Json {
             return {{"name", series.model}, {"points", json_list(series.points, point_of)}};
           })}};
}

}  // namespace headroom::report
