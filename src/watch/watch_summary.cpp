#include "watch/watch_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/json.h"
#include "base/terminal.h"
#include "monitoring/sample_metrics.h"
#include "report/page.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::watch {
namespace {

using monitoring::SeriesCurve;
using monitoring::SeriesSummary;

constexpr double kMostBytes = 1e18;

// Rounds up to a power of two, so that the axis ends at a round number.
double round_up(double bytes) {
  return static_cast<double>(
      std::bit_ceil(static_cast<std::uint64_t>(std::ceil(std::clamp(bytes, 1.0, kMostBytes)))));
}

// Clamps a value, because a log may contain any number.
Bytes bytes_of(double value) {
  return {static_cast<std::int64_t>(std::isnan(value) ? 0 : std::clamp(value, -kMostBytes, kMostBytes))};
}

double highest(const SeriesCurve& curve) {
  double value = 0;
  for (const SeriesCurve::Point& point : curve.points()) value = std::max(value, point.max);
  return value;
}

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

// "highest 4.6 GiB, 62 % of 7.44 GiB": the highest value of a curve, and its part of the machine's memory.
std::string highest_words(const MemoryCurves& curves, const MemoryCurves::Curve& one) {
  const Bytes value = bytes_of(highest(one.curve));
  const auto percent = one.is_of_ram ? monitoring::percent_of(value, curves.ram_total()) : std::nullopt;
  if (!percent) return "highest " + format_bytes(value);
  return fmt::format("highest {}, {:.0f} % of {}", format_bytes(value), *percent,
                     format_bytes(*curves.ram_total()));
}

std::string chart(const MemoryCurves& curves, const MemoryCurves::Curve& one, int width) {
  constexpr std::array<const char*, 9> kEighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr int kLabel = 11, kRows = 6;
  const auto& points = one.curve.points();
  const double top = round_up(highest(one.curve));
  const int wide = std::max(10, width - kLabel - 1);
  const auto columns = columns_of(one.curve, points.front().begin, points.back().end, wide);
  std::string text = fmt::format("{}\n{}\n", one.title, highest_words(curves, one));
  for (int row = kRows - 1; row >= 0; --row) {
    const std::string label = row == kRows - 1 ? format_bytes(bytes_of(top)) : row == 0 ? "0 B" : "";
    text += fmt::format("{:>{}}│", label, kLabel);
    for (const double value : columns) {
      const double eighths = std::max(value, 0.0) / top * kRows * 8 - row * 8;
      text += kEighths[static_cast<std::size_t>(std::clamp(std::lround(eighths), 0L, 8L))];
    }
    text += "\n";
  }
  const std::string from = format_duration(points.front().begin), to = format_duration(points.back().end);
  std::string axis;
  for (int i = 0; i < wide; ++i) axis += "─";
  return text + fmt::format("{:>{}}└{}\n{:>{}} {}{:>{}}\n", "", kLabel, axis, "", kLabel, from, to,
                            std::max(1, wide - static_cast<int>(from.size())));
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

// For XML.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text)
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
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

const SeriesSummary* find_summary(std::span<const SeriesSummary> metrics, std::string_view name) {
  const auto at = std::ranges::find(metrics, name, &SeriesSummary::name);
  return at == metrics.end() ? nullptr : &*at;
}

std::string slope_words(const SeriesSummary& metric) {
  if (!metric.slope_per_second) return std::string(report::kAbsent);
  const double a_minute = 60 * *metric.slope_per_second;
  const std::string words = report::words_for_metric(metric.name, std::abs(a_minute));
  return fmt::format("{}{}/min", a_minute < 0 ? "−" : "+", words);
}

}  // namespace

void MemoryCurves::add(const char* title, Nanoseconds time, const std::optional<Bytes>& value,
                       bool is_of_ram) {
  if (!value) return;
  auto at = std::ranges::find(curves_, title, &Curve::title);
  if (at == curves_.end()) at = curves_.insert(curves_.end(), {title, {}, is_of_ram});
  at->curve.add(time, static_cast<double>(value->count));
}

void MemoryCurves::add(const SystemSample& sample) {
  if (sample.ram_total) ram_total_ = sample.ram_total;
  add("RAM used", sample.time, sample.ram_used, true);
  std::optional<Bytes> device = sample.nvmap_used;
  for (const GpuSample& gpu : sample.gpus)
    if (gpu.memory_used) device = device.value_or(Bytes{}) + *gpu.memory_used;
  add("GPU memory", sample.time, device);
  if (sample.swap_total && sample.swap_total->count > 0) add("Swap used", sample.time, sample.swap_used);
  // The proportional memory if there is one, else the resident memory.
  for (const auto& [name, title] : {std::pair{"followed_pss_bytes", "Followed processes (PSS)"},
                                    std::pair{"followed_rss_bytes", "Followed processes (RSS)"}}) {
    const auto reading = std::ranges::find(sample.other, name, &Reading::name);
    if (reading == sample.other.end()) continue;
    add(title, sample.time, bytes_of(reading->value), true);
    return;
  }
}

std::string plot_for_terminal(const MemoryCurves& curves, int width) {
  std::string text;
  for (const MemoryCurves::Curve& one : curves.curves())
    if (one.curve.points().size() > 1) text += chart(curves, one, width);
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
                        frame.x(time), frame.top + frame.height + 18, anchor, format_duration(time));
  std::size_t number = 0;
  for (const MemoryCurves::Curve& one : curves.curves()) {
    const char* colour = kColours[number % kColours.size()];
    text += lines_of(one, frame, colour);
    const double y = frame.top + frame.height + 40 + 18 * static_cast<double>(number);
    text += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"#222222\">{}: {}</text>\n",
        frame.left, y - 10, colour, frame.left + 18, y, escaped(one.title), highest_words(curves, one));
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
    curve["is_of_ram"] = one.is_of_ram;
    page["curves"].push_back(std::move(curve));
  }
  return report::page_with_data(report::Page::watch, {{"watch", to_line(page)}});
}

std::string summary_table(std::span<const SeriesSummary> metrics, bool color) {
  std::vector<report::Column> columns{{"metric", 0, false}, {"min", 2}, {"mean"}, {"max"}, {"slope", 1}};
  for (const SeriesSummary& metric : metrics) {
    const auto total = report::total_of({metric.name, metric.n, metric.min, metric.mean, metric.max});
    if (total == 0) continue;  // no such event happened
    const auto words = [&](double value) {
      return total ? std::string(report::kAbsent) : report::words_for_metric(metric.name, value);
    };
    add_row(columns, {without_terminal_control(report::title_of_metric(metric.name)), words(metric.min),
                      words(metric.mean), total ? fmt::format("{} in total", *total) : words(metric.max),
                      total ? std::string(report::kAbsent) : slope_words(metric)});
  }
  return report::table_of(columns, color);
}

std::string baseline_words(std::span<const SeriesSummary> metrics, const SystemSample& last) {
  std::string text;
  if (const SeriesSummary* used = find_summary(metrics, "ram_used_bytes")) {
    const auto words = [](double bytes) { return format_bytes({std::llround(bytes)}); };
    text += fmt::format("Baseline: {} of memory in use, from {} to {} in {} samples\n", words(used->mean),
                        words(used->min), words(used->max), used->n);
    // Signs that the machine was not idle.
    const SeriesSummary* cpu = find_summary(metrics, "cpu_percent");
    if (cpu != nullptr && cpu->mean > 10)
      text += fmt::format("  not idle: the CPU was busy for {:.0f} % of the time\n", cpu->mean);
    if (used->max - used->min > 0.02 * used->mean + (32 << 20))
      text += fmt::format("  not idle: memory in use changed by {}\n", words(used->max - used->min));
  }
  if (const auto stack = monitoring::memory_stack_of(last)) {
    const auto line = [&](std::string_view title, Bytes part) {
      text += fmt::format("  {:<42} {:>10}  {:5.1f} %\n", title, format_bytes(part),
                          100.0 * static_cast<double>(part.count) /
                              static_cast<double>(std::max<std::int64_t>(1, stack->total.count)));
    };
    line("kernel and others", stack->system);
    line("processes (anonymous and shared memory)", stack->processes);
    if (last.nvmap_used) line("GPU and other devices (NvMap)", stack->gpu);
    line("cache (reclaimable)", stack->cache);
    line("free", stack->free);
    line("total", stack->total);
  }
  for (const GpuSample& gpu : last.gpus)
    if (gpu.memory_used)
      text += fmt::format("  GPU {} {}: {} of {} in use\n", gpu.index.value_or(0),
                          without_terminal_control(gpu.name), format_bytes(*gpu.memory_used),
                          report::words_for(gpu.memory_total));
  // The processes were chosen by resident memory, which counts shared pages fully for each process.
  const auto size_of = [](const ProcessSample& process) { return process.pss ? process.pss : process.rss; };
  std::vector<ProcessSample> processes = last.processes;
  std::ranges::stable_sort(processes, std::ranges::greater{}, size_of);
  const bool by_share =
      std::ranges::any_of(processes, [](const ProcessSample& process) { return process.pss.has_value(); });
  if (!processes.empty())
    text += fmt::format("  largest processes{}\n", by_share ? " (shared pages divided among processes)" : "");
  for (const ProcessSample& process : processes)
    text += fmt::format("  {:>8}  {:<18} {:>10}{}\n", process.pid, without_terminal_control(process.name),
                        report::words_for(size_of(process)),
                        process.gpu ? fmt::format("  GPU {}", format_bytes(*process.gpu)) : "");
  return text;
}

}  // namespace headroom::watch
