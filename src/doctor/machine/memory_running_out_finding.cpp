#include <fmt/format.h>

#include <algorithm>

#include "analysis/series_growth.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

// Steady growth, with the time that is left where it can be told: not further ahead than twice what was seen.
std::optional<Finding> memory_running_out(const MachineHistory& history) {
  const auto &left = history.seconds_left.value, &per_hour = history.growth_per_hour.value;
  constexpr double kSoon = 3600, kLongEnough = 60;
  const double grown = per_hour.value_or(0) / 3600 * history.growing_for().seconds();
  const bool is_much = history.growing_for().seconds() >= kLongEnough &&
                       grown > static_cast<double>(share_of(history.last.ram_total, 2));
  if (!left && !is_much) return std::nullopt;
  const std::string memory = history.seconds_left.detail.empty() ? "memory" : history.seconds_left.detail;
  const auto in = Nanoseconds{static_cast<std::int64_t>(std::min(left.value_or(0), 1e9) * 1e9)};
  Finding finding =
      new_finding(left ? "memory-running-out" : "memory-grows",
                  left && *left < kSoon ? Severity::severe : Severity::warning,
                  left ? fmt::format("If it goes on so, {} is used up {} after the end of these samples",
                                     memory, format_duration(in))
                       : fmt::format("Memory grows steadily, by {} an hour",
                                     format_bytes({static_cast<std::int64_t>(*per_hour)})),
                  "What is used grows steadily: a leak, a cache without a bound, or a log in memory.",
                  Confidence::likely);
  if (left) finding.figures.push_back({"left_seconds", *left});
  if (per_hour) finding.figures.push_back({"growth_per_hour_bytes", static_cast<std::int64_t>(*per_hour)});
  const ProcessGrowth* most = nullptr;
  for (const auto& [pid, process] : history.processes)
    if (!most || process.last - process.first > most->last - most->first) most = &process;
  if (most && most->last > most->first) {
    // A leak of a process, where most of the growth is its own.
    if (2 * static_cast<double>((most->last - most->first).count) >= grown && grown > 0) {
      finding.title += fmt::format("; most of it is {}'s", most->name);
      finding.figures.push_back({"level", "process"});
    }
    finding.figures.push_back({"fastest_process", most->name});
    finding.figures.push_back({"fastest_process_growth_bytes", (most->last - most->first).count});
    finding.cures.push_back({fmt::format("look into {}, which grew most", most->name),
                             "headroom trace -- COMMAND", most->last - most->first});
  } else {
    finding.cures.push_back({"find out who grows", "headroom watch --processes 10 --output watch.jsonl", {}});
  }
  return finding;
}

}  // namespace headroom::doctor
