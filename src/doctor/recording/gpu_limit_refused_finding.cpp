// A limit of GPU memory had no room for a request: who asked, and who held the rest.
#include <fmt/format.h>

#include <algorithm>

#include "base/display_width.h"
#include "base/text.h"
#include "doctor/new_finding.h"
#include "doctor/recording/recording_finding.h"
#include "report/words.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kMostHolders = 3;

std::string amount(std::int64_t bytes) { return format_bytes(Bytes{bytes}); }

// The largest tells most: small ones are refused when it was, too.
const attribution::DeviceRefusal& largest(const attribution::DeviceFigures& device) {
  return *std::max_element(device.refusals.begin(), device.refusals.end(),
                           [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
}

// ", its pools, graphs and shared granules 96.0 MiB, process 4711 (python3) 2.00 GiB".
std::string words_for_rest(const attribution::DeviceRefusal& refusal) {
  const attribution::DeviceRest rest = attribution::rest_of(refusal);
  std::string words;
  if (rest.kept > 0) words += fmt::format(", its pools, graphs and shared granules {}", amount(rest.kept));
  for (const attribution::DeviceProcess& process : rest.others)
    words +=
        fmt::format(", process {}{} {}", process.pid,
                    process.is_elsewhere   ? " in another container"
                    : process.name.empty() ? ""
                                           : fmt::format(" ({})", without_control_characters(process.name)),
                    amount(process.bytes));
  if (rest.unknown == 0) return words;
  const std::string unknown = amount(rest.unknown);
  if (rest.names_none) return words + ", other processes (or pools and graphs) " + unknown;
  return words + (rest.has_more_processes ? fmt::format(", more processes {}", unknown)
                                          : fmt::format(", and others released {} in the meantime", unknown));
}

Finding refused_on(const attribution::DeviceFigures& device, const RecordingFacts& facts) {
  const attribution::DeviceRefusal& refusal = largest(device);
  const std::int64_t own = refusal.own_bytes + refusal.rounding_bytes;
  Finding finding = new_finding(
      "gpu-limit-refused", Severity::warning,
      fmt::format("The limit of {} refused {} for memory of GPU {}", amount(refusal.limit),
                  report::counted(device.refused_count, "request"), device.ordinal),
      fmt::format(
          "The largest requested {} when {} were charged. Holders of the charged memory: the program {}{}.",
          amount(refusal.bytes), amount(refusal.charged), amount(own), words_for_rest(refusal)));
  if (facts.place_words) {
    finding.evidence.push_back({facts.file, 0, "refused: " + facts.place_words(refusal.stack)});
    for (std::size_t i = 0; i < std::min(kMostHolders, refusal.holders.size()); ++i)
      finding.evidence.push_back({facts.file, 0,
                                  fmt::format("{} held by {}", amount(refusal.holders[i].bytes),
                                              facts.place_words(refusal.holders[i].stack))});
  }
  finding.figures = {{"gpu", std::int64_t{device.ordinal}},      {"limit_bytes", refusal.limit},
                     {"refused_requests", device.refused_count}, {"requested_bytes", refusal.bytes},
                     {"charged_bytes", refusal.charged},         {"own_bytes", own}};
  finding.cures = {{"see each refused request, and what held the memory",
                    fmt::format("headroom report {}", shell_word(facts.file)),
                    {}}};
  // Where that is possible at all.
  if (const std::int64_t missing = refusal.charged + refusal.bytes - refusal.limit; missing > 0)
    finding.cures.push_back(
        {fmt::format("raise the limit by {} or more, or reduce the program's memory by as much",
                     amount(missing)),
         "",
         {}});
  return finding;
}

}  // namespace

std::vector<Finding> gpu_limit_refused(const RecordingFacts& facts) {
  std::vector<Finding> findings;
  for (const attribution::DeviceFigures& device : facts.analysis.devices)
    if (!device.refusals.empty()) findings.push_back(refused_on(device, facts));
  return findings;
}

}  // namespace headroom::doctor
