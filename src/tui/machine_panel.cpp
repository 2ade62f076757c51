// The panels with loads, clocks, temperatures, power, fans and engines, and the one with alerts.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/display_width.h"
#include "base/terminal.h"
#include "monitoring/alerts.h"
#include "tui/panels.h"

namespace headroom::tui {
namespace {

std::optional<double> clock_of(const SystemSample& sample, std::string_view name) {
  for (const Reading& clock : sample.clocks_hz)
    if (clock.name == name) return clock.value;
  return std::nullopt;
}

// Each cluster of cores has its own clock.
std::optional<double> fastest_core(const SystemSample& sample) {
  std::optional<double> fastest;
  for (const Reading& clock : sample.clocks_hz)
    if (clock.name.starts_with("cpu")) fastest = std::max(fastest.value_or(0), clock.value);
  for (const CpuCore& core : sample.cores)
    if (core.clock_hz) fastest = std::max(fastest.value_or(0), *core.clock_hz);
  return fastest;
}

// One bar per core; a dot for a core that is off.
Spans cores_of(const SystemSample& sample, bool ascii) {
  static constexpr const char* kEighths[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  Spans bars;
  if (sample.cores.size() < 2) return bars;
  for (const CpuCore& core : sample.cores) {
    if (!core.online || !core.percent) {
      bars.push_back({core.online ? " " : ascii ? "x" : "·", {Ink::dim}});
      continue;
    }
    const int eighth = std::clamp(static_cast<int>(*core.percent * 8 / 100), 0, 7);
    const int tenth = std::clamp(static_cast<int>(*core.percent / 10), 0, 9);
    bars.push_back(
        {ascii ? std::to_string(tenth) : kEighths[eighth], {ink_of_percent(*core.percent, Ink::cpu)}});
  }
  bars.push_back({" ", {}});
  return bars;
}

void add_load(std::vector<Spans>& pieces, const char* name, std::optional<double> percent,
              std::optional<double> clock, Ink ink, Spans bars = {}) {
  if (!percent && !clock) return;
  Spans piece{{std::string(name) + " ", {Ink::title, true}}};
  for (Span& bar : bars) piece.push_back(std::move(bar));
  if (percent) piece.push_back({fmt::format("{:.0f} %", *percent), {ink, true}});
  if (clock) piece.push_back({(percent ? " @ " : "@ ") + short_clock(*clock), {}});
  pieces.push_back(std::move(piece));
}

// Zone "cpu-thermal" → "cpu".
std::string short_name(std::string name) {
  if (name.size() > 8 && name.ends_with("-thermal")) name.resize(name.size() - 8);
  return name;
}

void add_readings(std::vector<Spans>& pieces, const char* title, const std::vector<Reading>& readings,
                  const char* format_unit, int digits, double hot) {
  bool is_first = true;
  for (const Reading& reading : readings) {
    Spans piece;
    if (is_first) piece.push_back({std::string(title) + " ", {Ink::title, true}});
    is_first = false;
    piece.push_back({short_name(reading.name) + " ", {}});
    piece.push_back({fmt::format("{:.{}f}{}", reading.value, digits, format_unit),
                     {reading.value >= hot ? Ink::critical : Ink::plain}});
    pieces.push_back(std::move(piece));
  }
}

void add_engines(std::vector<Spans>& pieces, const SystemSample& sample) {
  bool is_first = true;
  for (const EngineReading& engine : sample.engines) {
    std::string text = engine.name;
    if (engine.percent) text += fmt::format(" {:.0f} %", *engine.percent);
    if (engine.clock_hz && *engine.clock_hz > 0) text += " " + short_clock(*engine.clock_hz);
    const bool is_off = engine.on && !*engine.on;
    if (is_off) text += " off";
    Spans piece;
    if (is_first) piece.push_back({"Engines ", {Ink::title, true}});
    is_first = false;
    piece.push_back({text, {is_off ? Ink::dim : Ink::plain}});
    pieces.push_back(std::move(piece));
  }
}

}  // namespace

std::string short_clock(double hertz) {
  return hertz >= 1e9 ? fmt::format("{:.2f} GHz", hertz / 1e9) : fmt::format("{:.0f} MHz", hertz / 1e6);
}

int draw_machine(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice, int lines) {
  const SystemSample& sample = *picture.sample;
  std::vector<Spans> loads, sensors, rest;
  add_load(loads, "CPU", sample.cpu_percent, fastest_core(sample), Ink::cpu, cores_of(sample, choice.ascii));
  if (sample.gpus.empty()) add_load(loads, "GPU", sample.gpu_percent, clock_of(sample, "gpu"), Ink::gpu);
  add_load(loads, "EMC", sample.emc_percent, clock_of(sample, "emc"), Ink::cache);
  if (!sample.power_mode.empty()) loads.push_back({{"Mode ", {Ink::title, true}}, {sample.power_mode, {}}});
  if (sample.throttled.value_or(false)) loads.push_back({{"throttled", {Ink::warning, true}}});
  if (!loads.empty()) row = put_flow(canvas, row, loads, lines);

  constexpr double kNever = 1e300;
  add_readings(sensors, "Temp", sample.temperatures_celsius, " °C", 0, 80);
  add_readings(sensors, "Power", sample.power_watts, " W", 1, kNever);
  if (!sensors.empty()) row = put_flow(canvas, row, sensors, lines + 1);
  add_readings(rest, "Fan", sample.fans_rpm, " rpm", 0, kNever);
  if (sample.fans_rpm.empty()) add_readings(rest, "Fan", sample.fans_percent, " %", 0, kNever);
  add_engines(rest, sample);
  if (!rest.empty()) row = put_flow(canvas, row, rest, lines);
  return row;
}

int draw_alerts(Canvas& canvas, int row, const TopPicture& picture, int most) {
  int kernel_rows = (most + 1) / 2;  // in addition to the rows of alerts
  for (const KernelEvent& event : picture.kernel_events) {
    if (kernel_rows-- == 0) break;
    const std::string victim = event.pid ? fmt::format(" {} {}", event.process, *event.pid) : "";
    canvas.put(
        0, row++,
        {{"Kernel ", {Ink::critical, true}},
         {fmt::format("{}{}: ", event.kind == KernelEventKind::oom_kill ? "OOM kill" : "error", victim),
          {Ink::critical}},
         {without_terminal_control(event.text), {}}});
  }
  if (!picture.alerts_on) return row;
  if (picture.alerts.empty()) {
    canvas.put(0, row++, {{"Alerts ", {Ink::title, true}}, {"none", {Ink::good}}});
    return row;
  }
  int drawn = 0;
  std::size_t shown = 0;
  for (const AlertEvent& event : picture.alerts) {
    if (drawn == most) break;
    ++drawn, ++shown;
    const Ink ink = event.severity == AlertSeverity::critical ? Ink::critical : Ink::warning;
    const std::string more = drawn == most && shown < picture.alerts.size()
                                 ? fmt::format(" (and {} more)", picture.alerts.size() - shown)
                                 : "";
    canvas.put(
        0, row++,
        {{"Alert ", {ink, true}},
         {fit_to_width(monitoring::sentence_for(event), canvas.width() - 6 - display_width(more)), {ink}},
         {more, {ink}}});
  }
  return row;
}

}  // namespace headroom::tui
