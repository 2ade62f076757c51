#include "watch/sample_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "monitoring/metric_walk.h"
#include "report/run/metrics_json.h"
#include "watch/alert_actions.h"

namespace headroom::watch {
namespace {

// As short as possible; bytes and counts are integers.
void append_number(std::string& text, double value) {
  constexpr double kWhole = 1e15;
  if (std::abs(value) < kWhole && value == std::floor(value))
    fmt::format_to(std::back_inserter(text), "{}", static_cast<std::int64_t>(value));
  else
    fmt::format_to(std::back_inserter(text), "{:.6g}", value);
}

// Quotes a column name: names of sensors come from the machine and may contain anything.
std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"\n\r") == name.npos) return name;
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

}  // namespace

void append_json_line(std::string& text, const SystemSample& sample, std::span<const AlertEvent> alerts) {
  report::append_json(text, sample);
  text.pop_back();  // the closing brace: fields that only a log has follow
  if (sample.unknown_tokens.empty()) text += ",\"unknown_tokens\":[]";
  if (!alerts.empty()) {
    Json events = Json::array();
    for (const AlertEvent& event : alerts) events.push_back(to_json(event));
    text += ",\"alerts\":" + to_line(events);
  }
  text += "}\n";
}

std::string json_line(const SystemSample& sample, std::span<const AlertEvent> alerts) {
  std::string text;
  append_json_line(text, sample, alerts);
  return text;
}

void CsvRows::append(std::string& text, const SystemSample& sample) {
  if (columns_.empty()) {
    monitoring::for_each_metric(sample,
                                [this](std::string_view name, double) { columns_.emplace_back(name); });
    text += "time_seconds,unix_time_seconds";
    for (const std::string& column : columns_) text += "," + quoted(column);
    text += "\n";
  }
  cells_.resize(columns_.size());
  for (std::string& cell : cells_) cell.clear();
  std::size_t next = 0;
  monitoring::for_each_metric(sample, [this, &next](std::string_view name, double value) {
    if (next >= columns_.size() || columns_[next] != name)
      next = static_cast<std::size_t>(std::find(columns_.begin(), columns_.end(), name) - columns_.begin());
    if (next < columns_.size())
      append_number(cells_[next++], value);
    else if (!std::exchange(has_warned_, true))
      log::warning(
          "{} first appeared after the first sample, so the CSV has no column for it; JSON lines include it",
          name);
  });
  fmt::format_to(std::back_inserter(text), "{:.6f},", sample.time.seconds());
  if (sample.unix_time) fmt::format_to(std::back_inserter(text), "{:.3f}", sample.unix_time->seconds());
  for (const std::string& cell : cells_) {
    text += ',';
    text += cell;
  }
  text += '\n';
}

std::string line_for_person(const SystemSample& sample) {
  std::string line = fmt::format("{:>9}", fmt::format("{:.1f} s", sample.time.seconds()));
  const auto add = [&](const std::string& text) { line += "  " + text; };
  if (sample.ram_used && sample.ram_total && sample.ram_total->count > 0)
    add(fmt::format(
        "RAM {} of {} ({:.0f} %)", format_bytes(*sample.ram_used), format_bytes(*sample.ram_total),
        100.0 * static_cast<double>(sample.ram_used->count) / static_cast<double>(sample.ram_total->count)));
  if (sample.nvmap_used) add(fmt::format("NvMap {}", format_bytes(*sample.nvmap_used)));
  if (sample.largest_free_block)
    add(fmt::format("largest block {}", format_bytes(*sample.largest_free_block)));
  if (sample.swap_used && sample.swap_total && sample.swap_total->count > 0)
    add(fmt::format("swap {}", format_bytes(*sample.swap_used)));
  if (sample.cpu_percent) add(fmt::format("CPU {:.0f} %", *sample.cpu_percent));
  if (sample.gpu_percent) add(fmt::format("GPU {:.0f} %", *sample.gpu_percent));
  for (const GpuSample& gpu : sample.gpus)
    if (gpu.memory_used)
      add(fmt::format("GPU{} memory {}", gpu.index ? fmt::format(" {}", *gpu.index) : "",
                      format_bytes(*gpu.memory_used)));
  const auto hottest =
      std::max_element(sample.temperatures_celsius.begin(), sample.temperatures_celsius.end(),
                       [](const Reading& a, const Reading& b) { return a.value < b.value; });
  if (hottest != sample.temperatures_celsius.end())
    add(fmt::format("{} {:.0f} °C", hottest->name, hottest->value));
  if (const std::size_t unknown = sample.unknown_tokens.size(); unknown > 0)
    add(fmt::format("{} unknown token{}", unknown, unknown == 1 ? "" : "s"));
  return without_terminal_control(line) + "\n";  // sensor names in a log may contain anything
}

}  // namespace headroom::watch
