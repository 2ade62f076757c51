// `headroom history show METRIC --html FILE`: one self-contained page with a chart a model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/timestamp.h"
#include "comparison/metric_gate.h"
#include "report/history/history_views.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace comparison;

constexpr double kLeft = 90, kRight = 780, kTop = 12, kBottom = 200;
constexpr double kInside = 24;        // of the first and the last point, so that none lies on an axis
constexpr std::size_t kCaptions = 9;  // as many commits as stand side by side

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

// A step of round numbers, of which some five fill the range: of bytes powers of two, as their units are,
// else 1, 2 or 5 times a power of ten.
double round_step(double range, comparison::MetricUnit unit) {
  const double wanted = range / 5;
  if (unit == comparison::MetricUnit::bytes) return std::exp2(std::ceil(std::log2(std::max(1.0, wanted))));
  const double decade = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * decade >= wanted) return factor * decade;
  return 10 * decade;
}

struct Axis {
  double low = 0, high = 1, step = 1;
  double y(double value) const { return kBottom - (kBottom - kTop) * (value - low) / (high - low); }
};

// From one round number to another, with all values inside.
Axis axis_of(const comparison::RunMetric& metric, const HistorySeries& series) {
  double low = series.points.front().values.front(), high = low;
  for (const HistoryPoint& point : series.points) {
    low = std::min(low, point.values.front());
    high = std::max(high, point.values.back());
  }
  // A flat line lies in the middle of a scale of a tenth of its value.
  const double range = high > low ? high - low : std::max(std::abs(high) / 10, 1.0);
  Axis axis;
  axis.step = round_step(range, metric.unit);
  axis.low = (std::ceil(low / axis.step) - 1) * axis.step;
  axis.high = (std::floor(high / axis.step) + 1) * axis.step;
  return axis;
}

double x_of(std::size_t i, std::size_t points) {
  if (points == 1) return (kLeft + kRight) / 2;
  return kLeft + kInside +
         (kRight - kLeft - 2 * kInside) * static_cast<double>(i) / static_cast<double>(points - 1);
}

// 800 × 240: a dot a run, a line through the medians.
std::string chart_of(const comparison::RunMetric& metric, const HistorySeries& series) {
  const Axis axis = axis_of(metric, series);
  const std::size_t points = series.points.size();
  std::string svg = fmt::format("<svg viewBox=\"0 0 800 240\" role=\"img\" aria-label=\"{} of {}\">\n",
                                metric.name, escaped_html(series.model));
  const auto ticks = static_cast<int>(std::lround((axis.high - axis.low) / axis.step));
  for (int i = 0; i <= ticks; ++i) {
    const double value = axis.low + i * axis.step;
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" "
        "y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft, kRight, axis.y(value), axis.y(value), kLeft - 6, axis.y(value) + 4, words_for(metric, value));
  }
  std::string line, dots;
  const std::size_t step = (points + kCaptions - 1) / kCaptions;
  for (std::size_t i = 0; i < points; ++i) {
    const HistoryPoint& point = series.points[i];
    const double x = x_of(i, points), y = axis.y(point.median());
    line += fmt::format("{:.1f},{:.1f} ", x, y);
    for (const double value : point.values)
      dots += fmt::format("<circle class=\"run\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>", x, axis.y(value));
    dots += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{} {}\n{} ({} runs)</title></circle>\n", x, y,
        escaped_html(short_commit(point.commit)), escaped_html(without_fraction(point.started_at)),
        words_for(metric, point.median()), point.values.size());
    // The first and the last always; none so near to the first that they would lie on each other.
    if (i == 0 || ((points - 1 - i) % step == 0 && i >= step))
      svg += fmt::format("<text x=\"{:.1f}\" y=\"222\" text-anchor=\"middle\">{}</text>\n", x,
                         escaped_html(short_commit(point.commit)));
  }
  return svg + fmt::format("<polyline points=\"{}\"/>\n{}</svg>\n", line, dots);
}

constexpr std::string_view kStyle =
    ":root{color-scheme:light "
    "dark;--text:#222;--back:#fff;--weak:#555;--grid:#ddd;--line:#1565c0;--run:#90b8e0}"
    "@media(prefers-color-scheme:dark){:root{--text:#ddd;--back:#16181c;--weak:#aaa;--grid:#3a3d44;"
    "--line:#6fb1ff;--run:#3d6390}}"
    "body{font:14px system-ui,sans-serif;max-width:840px;margin:2em auto;padding:0 1em;color:var(--text);"
    "background:var(--back)}text{font-size:11px;fill:var(--weak)}.grid{stroke:var(--grid)}"
    "circle{fill:var(--line)}.run{fill:var(--run)}polyline{fill:none;stroke:var(--line);stroke-width:1.5}"
    "h1,h2,p{overflow-wrap:anywhere}.wide{overflow-x:auto}svg{display:block;width:100%;min-width:640px}"
    "td,th{padding:2px "
    "12px;text-align:right;white-space:nowrap}td:first-child,th:first-child{text-align:left}";

}  // namespace

std::string history_plot_to_html(const comparison::RunMetric& metric, const std::vector<HistorySeries>& all) {
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{0} over commits</title>\n"
      "<style>{2}</style></head>\n<body><h1>{0}</h1><p>{1}</p>\n",
      metric.name, metric.help, kStyle);
  for (const HistorySeries& series : all) {
    page += fmt::format(
        "<h2>{}</h2>\n<div class=\"wide\">{}</div><div "
        "class=\"wide\"><table><tr><th>commit</th><th>started</th><th>runs</th><th>lowest</th>"
        "<th>median</th><th>highest</th><th>change</th></tr>\n",
        escaped_html(series.model), chart_of(metric, series));
    std::optional<double> before;
    for (const HistoryPoint& point : series.points) {
      const std::string change =
          before && *before != 0 ? comparison::percent_words(point.median() / *before) : "";
      page += fmt::format(
          "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
          escaped_html(short_commit(point.commit)), escaped_html(without_fraction(point.started_at)),
          point.values.size(), words_for(metric, point.values.front()), words_for(metric, point.median()),
          words_for(metric, point.values.back()), change);
      before = point.median();
    }
    page += "</table></div>\n";
  }
  return page + "</body></html>\n";
}

}  // namespace headroom::report
