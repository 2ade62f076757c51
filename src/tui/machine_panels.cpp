// One stacked bar of the machine's memory, which counts every byte once, and a bar for each discrete GPU.

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/terminal.h"
#include "base/utf8.h"
#include "monitoring/alerts.h"
#include "monitoring/sample_metrics.h"
#include "tui/panels.h"

namespace headroom::tui {

namespace {

struct Part {
  const char* name;
  Bytes size;
  Ink ink;
  const char *fill, *ascii_fill;  // distinct also without colours
};

// The parts add up to MemTotal. If the sample has too few figures (a log of tegrastats has no anonymous
// memory), the parts are used and unused memory.
std::vector<Part> parts_of(const SystemSample& sample) {
  std::vector<Part> parts;
  const auto add = [&parts](const char* name, Bytes size, Ink ink, const char* fill, const char* ascii) {
    parts.push_back({name, size, ink, fill, ascii});
  };
  if (const auto stack = monitoring::memory_stack_of(sample)) {
    add("system", stack->system, Ink::system, "▚", "%");
    add("processes", stack->processes, Ink::processes, "█", "#");
    if (sample.nvmap_used) add("GPU", stack->gpu, Ink::gpu, "▓", "G");
    add("cache", stack->cache, Ink::cache, "▒", "=");
    add("free", stack->free, Ink::dim, "░", ".");
    return parts;
  }
  if (!sample.ram_total || !sample.ram_used) return parts;
  const Bytes used = std::clamp(*sample.ram_used, Bytes{}, *sample.ram_total);
  const Bytes gpu = std::min(sample.nvmap_used.value_or(Bytes{}), used);
  add(sample.nvmap_used ? "other used" : "used", used - gpu, Ink::processes, "█", "#");
  if (sample.nvmap_used) add("GPU", gpu, Ink::gpu, "▓", "G");
  add("cache and free", *sample.ram_total - used, Ink::dim, "░", ".");
  return parts;
}

// The number of cells of each part. The ends are rounded, so that the cells fill the bar.
std::vector<int> cells_of(const std::vector<Part>& parts, int columns) {
  double total = 0, sum = 0;
  for (const Part& part : parts) total += static_cast<double>(part.size.count);
  std::vector<int> cells;
  int end = 0;
  for (const Part& part : parts) {
    sum += static_cast<double>(part.size.count);
    const int begin = end;
    end = total > 0 ? static_cast<int>(std::lround(columns * sum / total)) : 0;
    cells.push_back(end - begin);
  }
  return cells;
}

std::string time_left(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.0f} h", seconds / 3600);
}

int draw_headline(Canvas& canvas, int row, const TopPicture& picture) {
  const SystemSample& sample = *picture.sample;
  std::vector<Spans> pieces;
  const auto used = percent_of(Curve::memory, sample);
  if (used) {
    pieces.push_back({{"Memory ", {Ink::title, true}},
                      {short_size(*sample.ram_used), {Ink::plain, true}},
                      {fmt::format(" of {} used ", short_size(*sample.ram_total)), {}},
                      {fmt::format("({:.0f} %)", *used), {ink_of_percent(*used, Ink::plain), true}}});
  } else {
    pieces.push_back({{"Memory ", {Ink::title, true}}, {"unknown", {Ink::dim}}});
  }
  if (sample.ram_available) pieces.push_back({{"available " + short_size(*sample.ram_available), {}}});
  if (picture.seconds_left)
    pieces.push_back({{"exhausted in " + time_left(*picture.seconds_left),
                       {*picture.seconds_left < 600 ? Ink::critical : Ink::warning, true}}});
  return put_flow(canvas, row, pieces, 1);
}

std::string per_second(const std::optional<std::int64_t>& count, const TopPicture& picture) {
  if (!count || !picture.since_before || picture.since_before->count <= 0) return {};
  return fmt::format("{:.0f}/s", static_cast<double>(*count) / picture.since_before->seconds());
}

int draw_swap(Canvas& canvas, int row, const TopPicture& picture) {
  const SystemSample& sample = *picture.sample;
  std::vector<Spans> pieces;
  const auto add = [&pieces](const std::string& text, Ink ink = Ink::plain) {
    pieces.push_back({{text, {ink}}});
  };
  if (sample.swap_total && sample.swap_total->count > 0 && sample.swap_used) {
    const auto percent = percent_of(Curve::swap, sample);
    pieces.push_back({{"Swap ", {Ink::title, true}},
                      {fmt::format("{} of {}", short_size(*sample.swap_used), short_size(*sample.swap_total)),
                       {ink_of_percent(percent.value_or(0), Ink::plain)}}});
  } else if (sample.swap_total) {
    pieces.push_back({{"Swap ", {Ink::title, true}}, {"none", {Ink::dim}}});
  }
  if (sample.zram_original && sample.zram_used && sample.zram_original->count > 0)
    add(fmt::format("zram {} in {}", short_size(*sample.zram_original), short_size(*sample.zram_used)));
  if (sample.psi_some_avg10 || sample.psi_full_avg10) {
    const double some = sample.psi_some_avg10.value_or(0), full = sample.psi_full_avg10.value_or(0);
    pieces.push_back({{"Stalls ", {Ink::title, true}},
                      {fmt::format("some {:.1f} %", some), {some >= 10 ? Ink::warning : Ink::plain}},
                      {fmt::format(" full {:.1f} %", full), {full >= 5 ? Ink::critical : Ink::plain}}});
  }
  if (const auto refaults = per_second(sample.refaults, picture); !refaults.empty())
    add("refaults " + refaults);
  if (const auto in = per_second(sample.pages_swapped_in, picture);
      !in.empty() && sample.swap_total && sample.swap_total->count > 0)
    add("swap-in " + in);
  if (sample.cma_total && sample.cma_free && sample.cma_total->count > 0)
    add(fmt::format("CMA {} of {} free", short_size(*sample.cma_free), short_size(*sample.cma_total)));
  if (sample.cgroup && sample.cgroup->current && sample.cgroup->limit)
    add(fmt::format("cgroup {} of {}", short_size(*sample.cgroup->current),
                    short_size(*sample.cgroup->limit)));
  return pieces.empty() ? row : put_flow(canvas, row, pieces, 1);
}

std::string label_of(const GpuSample& gpu) { return gpu.index ? fmt::format("GPU {}", *gpu.index) : "GPU"; }

// The panels with loads, clocks, temperatures, power, fans and engines, and the one with alerts.

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

// "2.04 GHz", "729 MHz".
std::string short_clock(double hertz) {
  return hertz >= 1e9 ? fmt::format("{:.2f} GHz", hertz / 1e9) : fmt::format("{:.0f} MHz", hertz / 1e6);
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

// Only the first piece shows the title.
Spans& add_titled(std::vector<Spans>& pieces, const char* title, bool is_first, std::string text,
                  Ink ink = Ink::plain) {
  Spans& piece = pieces.emplace_back();
  if (is_first) piece.push_back({std::string(title) + " ", {Ink::title, true}});
  piece.push_back({std::move(text), {ink}});
  return piece;
}

void add_readings(std::vector<Spans>& pieces, const char* title, const std::vector<Reading>& readings,
                  const char* format_unit, int digits, double hot) {
  for (const Reading& reading : readings) {
    Spans& piece = add_titled(pieces, title, &reading == &readings.front(), short_name(reading.name) + " ");
    piece.push_back({fmt::format("{:.{}f}{}", reading.value, digits, format_unit),
                     {reading.value >= hot ? Ink::critical : Ink::plain}});
  }
}

void add_engines(std::vector<Spans>& pieces, const SystemSample& sample) {
  for (const EngineReading& engine : sample.engines) {
    std::string text = engine.name;
    if (engine.percent) text += fmt::format(" {:.0f} %", *engine.percent);
    if (engine.clock_hz && *engine.clock_hz > 0) text += " " + short_clock(*engine.clock_hz);
    const bool is_off = engine.on && !*engine.on;
    if (is_off) text += " off";
    add_titled(pieces, "Engines", &engine == &sample.engines.front(), text, is_off ? Ink::dim : Ink::plain);
  }
}

}  // namespace

int draw_memory(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice) {
  const SystemSample& sample = *picture.sample;
  row = draw_headline(canvas, row, picture);
  const auto parts = parts_of(sample);
  if (!parts.empty()) {
    const auto cells = cells_of(parts, canvas.width());
    int column = 0;
    std::vector<Spans> legend;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const char* fill = choice.ascii ? parts[i].ascii_fill : parts[i].fill;
      for (int cell = 0; cell < cells[i]; ++cell) column = canvas.put(column, row, fill, {parts[i].ink});
      legend.push_back({{std::string(fill) + " ", {parts[i].ink}},
                        {fmt::format("{} {}", parts[i].name, short_size(parts[i].size)), {}}});
    }
    const auto& blocks = sample.largest_free_blocks;
    if (sample.largest_free_block)
      legend.push_back({{fmt::format("largest block {}{}", short_size(*sample.largest_free_block),
                                     blocks ? fmt::format(" ×{}", *blocks) : ""),
                         {}}});
    row = put_flow(canvas, row + 1, legend, 2);
  }
  return draw_swap(canvas, row, picture);
}

int draw_gpus(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice, int most) {
  int drawn = 0;
  for (const GpuSample& gpu : picture.sample->gpus) {
    if (drawn == most) {
      canvas.put(
          0, row++,
          fmt::format("and {} more GPUs", picture.sample->gpus.size() - static_cast<std::size_t>(drawn)),
          {Ink::dim});
      break;
    }
    ++drawn;
    std::vector<Spans> pieces;
    const auto add = [&pieces](const std::string& text, Ink ink = Ink::plain) {
      pieces.push_back({{text, {ink}}});
    };
    pieces.push_back({{label_of(gpu), {Ink::title, true}}});
    if (gpu.lost) add("lost", Ink::critical);
    if (gpu.memory_used && gpu.memory_total && gpu.memory_total->count > 0) {
      const double share =
          static_cast<double>(gpu.memory_used->count) / static_cast<double>(gpu.memory_total->count);
      pieces.push_back(
          {{bar_text(share, std::clamp(canvas.width() / 6, 8, 30), choice.ascii),
            {ink_of_percent(100 * share, Ink::gpu)}},
           {fmt::format(" {} of {}", short_size(*gpu.memory_used), short_size(*gpu.memory_total)), {}}});
    }
    if (gpu.gpu_percent) add(fmt::format("{:.0f} %", *gpu.gpu_percent), Ink::gpu);
    if (gpu.graphics_clock_hz) add(short_clock(*gpu.graphics_clock_hz));
    if (gpu.temperature_celsius)
      add(fmt::format("{:.0f} °C", *gpu.temperature_celsius),
          *gpu.temperature_celsius >= 80 ? Ink::critical : Ink::plain);
    if (gpu.power_watts)
      add(gpu.power_limit_watts ? fmt::format("{:.0f}/{:.0f} W", *gpu.power_watts, *gpu.power_limit_watts)
                                : fmt::format("{:.0f} W", *gpu.power_watts));
    if (gpu.throttled.value_or(false)) add("throttled", Ink::warning);
    if (gpu.encoder_percent.value_or(0) > 0) add(fmt::format("encoder {:.0f} %", *gpu.encoder_percent));
    if (gpu.decoder_percent.value_or(0) > 0) add(fmt::format("decoder {:.0f} %", *gpu.decoder_percent));
    add(gpu.name, Ink::dim);
    row = put_flow(canvas, row, pieces, 1);
  }
  return row;
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
  const std::size_t all = picture.alerts.size(), shown = std::min(all, static_cast<std::size_t>(most));
  for (std::size_t i = 0; i < shown; ++i) {
    const AlertEvent& event = picture.alerts[i];
    const Ink ink = event.severity == AlertSeverity::critical ? Ink::critical : Ink::warning;
    const std::string more = i + 1 == shown && shown < all ? fmt::format(" (and {} more)", all - shown) : "";
    canvas.put(
        0, row++,
        {{"Alert ", {ink, true}},
         {fit_to_width(monitoring::sentence_for(event), canvas.width() - 6 - display_width(more)), {ink}},
         {more, {ink}}});
  }
  return row;
}

}  // namespace headroom::tui
