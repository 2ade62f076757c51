#include "watch/watch_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/terminal.h"
#include "monitoring/memory_stack.h"
#include "report/terminal_table.h"
#include "report/words.h"

namespace headroom::watch {
namespace {

using monitoring::SeriesSummary;

const SeriesSummary* find(std::span<const SeriesSummary> metrics, std::string_view name) {
  const auto at = std::find_if(metrics.begin(), metrics.end(),
                               [&](const SeriesSummary& one) { return one.name == name; });
  return at == metrics.end() ? nullptr : &*at;
}

std::string slope_words(const SeriesSummary& metric) {
  if (!metric.slope_per_second) return std::string(report::kAbsent);
  const double a_minute = 60 * *metric.slope_per_second;
  const std::string words = report::words_for_metric(metric.name, std::abs(a_minute));
  return fmt::format("{}{}/min", a_minute < 0 ? "−" : "+", words);
}

}  // namespace

std::string summary_table(std::span<const SeriesSummary> metrics, bool color) {
  using report::Column;
  Column name{"metric", 0, false}, smallest{"min", 2}, mean{"mean", 0}, largest{"max", 0}, slope{"slope", 1};
  for (const SeriesSummary& metric : metrics) {
    const auto words = [&](double value) { return report::words_for_metric(metric.name, value); };
    const auto total = report::total_of({metric.name, metric.n, metric.min, metric.mean, metric.max});
    if (total == 0) continue;  // no such event happened
    name.cells.push_back(without_terminal_control(report::title_of_metric(metric.name)));
    smallest.cells.push_back(total ? std::string(report::kAbsent) : words(metric.min));
    mean.cells.push_back(total ? std::string(report::kAbsent) : words(metric.mean));
    largest.cells.push_back(total ? fmt::format("{} in total", *total) : words(metric.max));
    slope.cells.push_back(total ? std::string(report::kAbsent) : slope_words(metric));
  }
  return report::table_of(
      {std::move(name), std::move(smallest), std::move(mean), std::move(largest), std::move(slope)}, color);
}

std::string baseline_words(std::span<const SeriesSummary> metrics, const SystemSample& last) {
  std::string text;
  if (const SeriesSummary* used = find(metrics, "ram_used_bytes")) {
    const auto words = [](double bytes) { return format_bytes({std::llround(bytes)}); };
    text += fmt::format("Baseline: {} of memory in use, from {} to {} in {} samples\n", words(used->mean),
                        words(used->min), words(used->max), used->n);
    // Signs that the machine was not idle.
    const SeriesSummary* cpu = find(metrics, "cpu_percent");
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
  if (last.nvmap_used || !last.gpus.empty())
    for (const GpuSample& gpu : last.gpus)
      if (gpu.memory_used)
        text += fmt::format("  GPU {} {}: {} of {} in use\n", gpu.index.value_or(0),
                            without_terminal_control(gpu.name), format_bytes(*gpu.memory_used),
                            report::words_for(gpu.memory_total));
  // The processes were chosen by resident memory, which counts shared pages fully for each process.
  const auto size_of = [](const ProcessSample& process) {
    return (process.pss ? process.pss : process.rss).value_or(Bytes{});
  };
  std::vector<ProcessSample> processes = last.processes;
  std::stable_sort(processes.begin(), processes.end(),
                   [&](const ProcessSample& a, const ProcessSample& b) { return size_of(a) > size_of(b); });
  const bool by_share = std::any_of(processes.begin(), processes.end(),
                                    [](const ProcessSample& process) { return process.pss.has_value(); });
  if (!processes.empty())
    text += fmt::format("  largest processes{}\n", by_share ? " (shared pages divided among processes)" : "");
  for (const ProcessSample& process : processes)
    text += fmt::format("  {:>8}  {:<18} {:>10}{}\n", process.pid, without_terminal_control(process.name),
                        report::words_for(process.pss ? process.pss : process.rss),
                        process.gpu ? fmt::format("  GPU {}", format_bytes(*process.gpu)) : "");
  return text;
}

}  // namespace headroom::watch
