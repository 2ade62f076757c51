#include "watch/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.h"
#include "report/page.h"

namespace headroom::watch {
namespace {

using monitoring::SeriesCurve;

// Rounds up to a power of two within KiB, MiB or GiB, so that the axis ends at a round number.
double round_up(double bytes) {
  double unit = 1;
  while (unit * 1024 < bytes) unit *= 1024;
  for (const double step : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0})
    if (unit * step >= bytes) return unit * step;
  return bytes;
}

// Clamps a value, because a log may contain any number.
Bytes bytes_of(double value) {
  constexpr double kMost = 1e18;
  return {static_cast<std::int64_t>(std::isnan(value) ? 0 : std::clamp(value, -kMost, kMost))};
}

double highest(const SeriesCurve& curve) {
  double value = 0;
  for (const SeriesCurve::Point& point : curve.points()) value = std::max(value, point.max);
  return value;
}

std::string time_text(Nanoseconds time) { return format_duration(time); }

// The largest value in each of `width` equal time spans. A span without samples repeats the previous one.
std::vector<double> columns_of(const SeriesCurve& curve, Nanoseconds begin, Nanoseconds end, int width) {
  std::vector<double> columns(static_cast<std::size_t>(width), -1);
  const double span = std::max(1.0, static_cast<double>((end - begin).count));
  const auto column_of = [&](Nanoseconds time) {
    const double share = static_cast<double>((time - begin).count) / span;
    return std::clamp(static_cast<int>(share * width), 0, width - 1);
  };
  for (const SeriesCurve::Point& point : curve.points())
    for (int i = column_of(point.begin); i <= column_of(point.end); ++i) {
      double& column = columns[static_cast<std::size_t>(i)];
      column = std::max(column, point.max);
    }
  for (std::size_t i = 1; i < columns.size(); ++i)
    if (columns[i] < 0) columns[i] = columns[i - 1];
  return columns;
}

std::string chart(const MemoryCurves::Curve& one, int width, int rows) {
  constexpr std::array<const char*, 9> kEighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr int kLabel = 11;
  const auto& points = one.curve.points();
  const double top = std::max(1.0, round_up(highest(one.curve)));
  const int wide = std::max(10, width - kLabel - 1);
  const auto columns = columns_of(one.curve, points.front().begin, points.back().end, wide);
  std::string text = fmt::format("{}\n", one.title);
  for (int row = rows - 1; row >= 0; --row) {
    const std::string label = row == rows - 1 ? format_bytes(bytes_of(top)) : row == 0 ? "0 B" : "";
    text += fmt::format("{:>{}}│", label, kLabel);
    for (const double value : columns) {
      const double eighths = std::max(value, 0.0) / top * rows * 8 - row * 8;
      text += kEighths[static_cast<std::size_t>(std::clamp(std::lround(eighths), 0L, 8L))];
    }
    text += "\n";
  }
  const std::string from = time_text(points.front().begin), to = time_text(points.back().end);
  text += fmt::format(
      "{:>{}}└{}\n{:>{}} {}{:>{}}\n", "", kLabel,
      [wide] {
        std::string line;
        for (int i = 0; i < wide; ++i) line += "─";
        return line;
      }(),
      "", kLabel, from, to, std::max(1, wide - static_cast<int>(from.size())));
  return text;
}

// From the palette of Okabe and Ito, which colour-blind readers can distinguish.
constexpr std::array<const char*, 5> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9"};

struct Frame {
  double left = 90, top = 40, width = 790, height = 300;
  Nanoseconds begin, end;
  double highest = 1;
  double x(Nanoseconds time) const {
    const double span = std::max(1.0, static_cast<double>((end - begin).count));
    return left + width * static_cast<double>((time - begin).count) / span;
  }
  double y(double value) const { return top + height * (1 - value / highest); }
};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else
      safe += c;
  }
  return safe;
}

std::string lines_of(const MemoryCurves::Curve& one, const Frame& frame, const char* colour) {
  const auto& points = one.curve.points();
  std::string band, line;
  for (const auto& point : points) {
    const Nanoseconds middle{(point.begin.count + point.end.count) / 2};
    line += fmt::format("{:.1f},{:.1f} ", frame.x(middle), frame.y(point.mean));
    band += fmt::format("{:.1f},{:.1f} ", frame.x(middle), frame.y(point.max));
  }
  for (auto point = points.rbegin(); point != points.rend(); ++point)
    band += fmt::format("{:.1f},{:.1f} ", frame.x({(point->begin.count + point->end.count) / 2}),
                        frame.y(point->min));
  return fmt::format(
      "<polygon points=\"{}\" fill=\"{}\" fill-opacity=\"0.2\"/>\n"
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
      band, colour, line, colour);
}

}  // namespace

void MemoryCurves::add(const char* title, Nanoseconds time, const std::optional<Bytes>& value) {
  if (!value) return;
  auto at =
      std::find_if(curves_.begin(), curves_.end(), [&](const Curve& one) { return one.title == title; });
  if (at == curves_.end()) at = curves_.insert(curves_.end(), {title, {}});
  at->curve.add(time, static_cast<double>(value->count));
}

void MemoryCurves::add(const SystemSample& sample) {
  if (sample.ram_total) ram_total_ = sample.ram_total;
  add("RAM used", sample.time, sample.ram_used);
  std::optional<Bytes> device = sample.nvmap_used;
  for (const GpuSample& gpu : sample.gpus)
    if (gpu.memory_used) device = device.value_or(Bytes{}) + *gpu.memory_used;
  add("GPU memory", sample.time, device);
  if (sample.swap_total && sample.swap_total->count > 0) add("Swap used", sample.time, sample.swap_used);
  const bool has_pss = std::any_of(sample.other.begin(), sample.other.end(), [](const Reading& reading) {
    return reading.name == "followed_pss_bytes";
  });
  for (const Reading& reading : sample.other)
    if ((!has_pss || reading.name == "followed_pss_bytes") &&
        (reading.name == "followed_pss_bytes" || reading.name == "followed_rss_bytes"))
      add(reading.name == "followed_pss_bytes" ? "Followed processes (PSS)" : "Followed processes (RSS)",
          sample.time, bytes_of(reading.value));
}

std::string plot_for_terminal(const MemoryCurves& curves, int width, int rows) {
  std::string text;
  for (const MemoryCurves::Curve& one : curves.curves())
    if (one.curve.points().size() > 1) text += chart(one, width, rows);
  return text;
}

std::string plot_as_svg(const MemoryCurves& curves, const std::string& title) {
  Frame frame;
  bool first = true;
  for (const MemoryCurves::Curve& one : curves.curves()) {
    const auto& points = one.curve.points();
    if (points.empty()) continue;
    frame.begin = first ? points.front().begin : std::min(frame.begin, points.front().begin);
    frame.end = first ? points.back().end : std::max(frame.end, points.back().end);
    frame.highest = std::max(frame.highest, round_up(highest(one.curve)));
    first = false;
  }
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 {}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{}\" y=\"22\" font-size=\"15\" fill=\"#222222\">{}</text>\n",
      390 + 18 * curves.curves().size(), frame.left, escaped(title));
  for (int i = 0; i <= 4; ++i) {
    const double value = frame.highest * i / 4;
    text += fmt::format(
        "<line x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>"
        "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#555555\">{}</text>\n",
        frame.left, frame.left + frame.width, frame.y(value), frame.y(value), frame.left - 8,
        frame.y(value) + 4, format_bytes(bytes_of(value)));
  }
  for (const auto& [time, anchor] : {std::pair{frame.begin, "start"}, {frame.end, "end"}})
    text += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\" fill=\"#555555\">{}</text>\n",
                        frame.x(time), frame.top + frame.height + 18, anchor, time_text(time));
  std::size_t number = 0;
  for (const MemoryCurves::Curve& one : curves.curves()) {
    const char* colour = kColours[number % kColours.size()];
    text += lines_of(one, frame, colour);
    const double y = frame.top + frame.height + 40 + 18 * static_cast<double>(number);
    text += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"#222222\">{}: highest {}</text>\n",
        frame.left, y - 10, colour, frame.left + 18, y, escaped(one.title),
        format_bytes(bytes_of(highest(one.curve))));
    ++number;
  }
  return text + "</svg>\n";
}

std::string plot_as_html(const MemoryCurves& curves, const std::string& title) {
  Json page;
  page["title"] = title;
  if (curves.ram_total()) page["ram_total_bytes"] = curves.ram_total()->count;
  page["curves"] = Json::array();
  for (const MemoryCurves::Curve& one : curves.curves()) {
    Json curve;
    curve["title"] = one.title;
    for (const SeriesCurve::Point& point : one.curve.points()) {
      curve["seconds"].push_back(Nanoseconds{(point.begin.count + point.end.count) / 2}.seconds());
      curve["min_bytes"].push_back(bytes_of(point.min).count);
      curve["mean_bytes"].push_back(bytes_of(point.mean).count);
      curve["max_bytes"].push_back(bytes_of(point.max).count);
    }
    page["curves"].push_back(std::move(curve));
  }
  return report::page_with_data(report::Page::watch, {{"watch", to_line(page)}});
}

}  // namespace headroom::watch
