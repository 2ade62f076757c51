#include "report/history_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/metric_gate.h"
#include "report/terminal_table.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace analysis;
using history::KeptRun;

constexpr std::size_t kShownOfCommit = 10;

std::string short_commit(const std::string& commit) {
  return commit.empty() ? std::string(kAbsent) : commit.substr(0, kShownOfCommit);
}

struct Extent {
  double low = 0, high = 0;
};

Extent extent_of(const HistorySeries& series) {
  Extent extent{series.points.front().values.front(), series.points.front().values.back()};
  for (const HistoryPoint& point : series.points) {
    extent.low = std::min(extent.low, point.values.front());
    extent.high = std::max(extent.high, point.values.back());
  }
  return extent;
}

// Where the runs of a point lie between the lowest and the highest of all: "   ├──●─┤   ".
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

std::string escaped_html(std::string_view text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  return safe;
}

// 800 × 240, a dot a run, a line through the medians.
std::string chart_of(const RunMetric& metric, const HistorySeries& series) {
  constexpr double kLeft = 90, kTop = 12, kWidth = 690, kHeight = 190;
  Extent extent = extent_of(series);
  const double margin =
      extent.high > extent.low ? 0.05 * (extent.high - extent.low) : std::abs(extent.high) * 0.05;
  extent.low -= margin;
  extent.high += margin > 0 ? margin : 1;
  const auto x = [&](std::size_t i) {
    const auto last = static_cast<double>(std::max<std::size_t>(1, series.points.size() - 1));
    return kLeft + kWidth * static_cast<double>(i) / last;
  };
  const auto y = [&](double value) {
    return kTop + kHeight * (1 - (value - extent.low) / (extent.high - extent.low));
  };
  std::string svg = fmt::format("<svg viewBox=\"0 0 800 240\" role=\"img\" aria-label=\"{} of {}\">\n",
                                metric.name, escaped_html(series.model));
  for (int i = 0; i <= 4; ++i) {
    const double value = extent.low + (extent.high - extent.low) * i / 4;
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" "
        "y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft, kLeft + kWidth, y(value), y(value), kLeft - 6, y(value) + 4, words_for(metric, value));
  }
  std::string line;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const HistoryPoint& point = series.points[i];
    line += fmt::format("{:.1f},{:.1f} ", x(i), y(point.median()));
    for (const double value : point.values)
      svg += fmt::format("<circle class=\"run\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>", x(i), y(value));
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{} {}\n{} ({} runs)</title></circle>\n", x(i),
        y(point.median()), escaped_html(short_commit(point.commit)), escaped_html(point.started_at),
        words_for(metric, point.median()), point.values.size());
  }
  svg += fmt::format("<polyline points=\"{}\"/>\n", line);
  const auto caption = [&](std::size_t i, const char* anchor) {
    return fmt::format("<text x=\"{:.1f}\" y=\"225\" text-anchor=\"{}\">{}</text>", x(i), anchor,
                       escaped_html(short_commit(series.points[i].commit)));
  };
  svg += caption(0, "start");
  if (series.points.size() > 1) svg += caption(series.points.size() - 1, "end");
  return svg + "\n</svg>\n";
}

}  // namespace

double HistoryPoint::median() const {
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<HistorySeries> history_series(const std::vector<KeptRun>& runs) {
  std::vector<HistorySeries> all;
  for (const KeptRun& run : runs)
    for (const history::KeptFigure& figure : run.figures) {
      auto series = std::find_if(all.begin(), all.end(),
                                 [&](const HistorySeries& known) { return known.model == figure.model; });
      if (series == all.end()) series = all.insert(all.end(), {figure.model, {}});
      // Without a commit each run is a point of its own.
      auto point = std::find_if(series->points.begin(), series->points.end(), [&](const HistoryPoint& known) {
        return !run.commit.empty() && known.commit == run.commit;
      });
      if (point == series->points.end())
        point = series->points.insert(series->points.end(), {run.commit, run.label, run.started_at, {}});
      point->values.insert(std::upper_bound(point->values.begin(), point->values.end(), figure.value),
                           figure.value);
    }
  return all;
}

std::string history_list_to_terminal(const std::vector<KeptRun>& runs, bool color, int width) {
  std::vector<Column> columns{
      {"STARTED", 0, false}, {"RUN", 0, true}, {"COMMIT", 0, false}, {"LABEL", 2, false}, {"HOST", 1, false}};
  for (const KeptRun& run : runs) {
    columns[0].cells.push_back(run.started_at);
    columns[1].cells.push_back(fmt::format("{}", run.id));
    columns[2].cells.push_back(short_commit(run.commit));
    columns[3].cells.push_back(run.label);
    columns[4].cells.push_back(run.host);
  }
  fit_columns(columns, width, 25);
  return table_of(columns, color);
}

Json history_list_to_json(const std::vector<KeptRun>& runs) {
  Json json;
  json["schema_version"] = kHistorySchemaVersion;
  json["runs"] = Json::array();
  for (const KeptRun& run : runs) {
    Json row;
    row["run"] = run.id;
    row["started_at"] = run.started_at;
    row["added_at"] = run.added_at;
    set_if(row, "commit", run.commit);
    set_if(row, "label", run.label);
    row["host"] = run.host;
    json["runs"].push_back(std::move(row));
  }
  return json;
}

std::string history_plot_to_terminal(const RunMetric& metric, const std::vector<HistorySeries>& all,
                                     bool color, int width) {
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
      columns[1].cells.push_back(point.started_at.substr(0, 16));
      columns[2].cells.push_back(fmt::format("{}", point.values.size()));
      columns[3].cells.push_back(words_for(metric, point.median()));
      columns[4].cells.push_back(before && *before != 0 ? percent_words(point.median() / *before) : "");
      columns[5].cells.push_back(mark_of(point, extent, std::clamp(width - 66, 10, 40)));
      before = point.median();
    }
    text += "\n" + painted(series.model, kBold, color) + "\n";
    fit_columns(columns, width, 10);
    text += table_of(columns, color);
  }
  return text;
}

std::string history_plot_to_html(const RunMetric& metric, const std::vector<HistorySeries>& all) {
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0} over "
      "commits</title>\n<style>"
      "body{{font:14px system-ui,sans-serif;max-width:840px;margin:2em auto;color:#222;background:#fff}}"
      "text{{font-size:11px;fill:#555}}.grid{{stroke:#ddd}}circle{{fill:#1565c0}}.run{{fill:#90b8e0}}"
      "polyline{{fill:none;stroke:#1565c0;stroke-width:1.5}}td,th{{padding:2px 12px;text-align:right}}"
      "td:first-child,th:first-child{{text-align:left}}</style></head>\n<body><h1>{0}</h1><p>{1}</p>\n",
      metric.name, metric.help);
  for (const HistorySeries& series : all) {
    page += fmt::format(
        "<h2>{}</h2>\n{}<table><tr><th>commit</th><th>started</th><th>runs</th><th>lowest</th>"
        "<th>median</th><th>highest</th></tr>\n",
        escaped_html(series.model), chart_of(metric, series));
    for (const HistoryPoint& point : series.points)
      page += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                          escaped_html(short_commit(point.commit)), escaped_html(point.started_at),
                          point.values.size(), words_for(metric, point.values.front()),
                          words_for(metric, point.median()), words_for(metric, point.values.back()));
    page += "</table>\n";
  }
  return page + "</body></html>\n";
}

Json history_plot_to_json(const RunMetric& metric, const std::vector<HistorySeries>& all) {
  Json json;
  json["schema_version"] = kHistorySchemaVersion;
  json["metric"] = metric.name;
  json["unit"] = metric.unit == MetricUnit::bytes         ? "bytes"
                 : metric.unit == MetricUnit::nanoseconds ? "ns"
                 : metric.unit == MetricUnit::per_second  ? "per_second"
                                                          : "count";
  json["models"] = Json::array();
  for (const HistorySeries& series : all) {
    Json model;
    model["name"] = series.model;
    model["points"] = Json::array();
    for (const HistoryPoint& point : series.points) {
      Json row;
      set_if(row, "commit", point.commit);
      set_if(row, "label", point.label);
      row["started_at"] = point.started_at;
      row["median"] = point.median();
      row["values"] = point.values;
      model["points"].push_back(std::move(row));
    }
    json["models"].push_back(std::move(model));
  }
  return json;
}

}  // namespace headroom::report
