#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/snapshot/snapshot_finding.h"
#include "report/snapshot/snapshot_words.h"

namespace headroom::doctor {
namespace {

// A step of inference or training takes some milliseconds to seconds, and what a step keeps on purpose, as a
// forward pass its activations, grows for as long. Of less than a second, or less than 32 times at one place,
// growth is no leak yet. A trace without times is judged by the times alone that its places came by.
bool is_long_enough(const DeviceAnalysis& device) {
  constexpr std::int64_t kLeastUs = 1'000'000, kLeastTimes = 32;
  const std::int64_t span_us = device.last_time_us - device.first_time_us;
  if (span_us >= kLeastUs) return true;
  constexpr std::int64_t kLeastUsOfMany = 100'000;
  if (span_us > 0 && span_us < kLeastUsOfMany) return false;
  return std::any_of(device.leaks.places.begin(), device.leaks.places.end(),
                     [](const snapshot::PlaceGrowth& place) {
                       return place.growth == monitoring::Growth::leak && place.allocations >= kLeastTimes;
                     });
}

// What is repeated where the tensors are kept: a word of the places' functions tells it, from the innermost
// on; else it is the process that keeps them.
std::string level_of(std::string_view place) {
  struct Level {
    std::string_view word, level;
  };
  constexpr Level kLevels[] = {{"object", "object"}, {"track", "object"}, {"detection", "object"},
                               {"video", "video"},   {"clip", "video"},   {"stream", "video"},
                               {"model", "model"},   {"engine", "model"}, {"checkpoint", "model"}};
  const std::string text = to_lower(place);
  std::size_t first = text.npos;
  std::string_view level = "process";
  for (const Level& each : kLevels)
    if (const std::size_t at = text.find(each.word); at < first) {
      first = at;
      level = each.level;
    }
  return std::string(level);
}

void call_it_short(const DeviceAnalysis& device, Finding& finding) {
  const std::int64_t span_us = device.last_time_us - device.first_time_us;
  finding.severity = Severity::warning;
  finding.confidence = Confidence::possible;
  finding.cause = fmt::format(
      "In a trace {}, memory that one step keeps until its end looks like a leak. Record more steps to be "
      "sure.",
      span_us > 0 ? "of " + format_duration({span_us * 1000}) : "of so few allocations");
}

}  // namespace

std::optional<Finding> leak_of_places(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device) {
  const snapshot::SnapshotLeaks& leaks = device.leaks;
  const bool stays = leaks.growth == monitoring::Growth::grew_then_stayed;
  if (leaks.growth != monitoring::Growth::leak && !(stays && leaks.late_bytes > 0)) return std::nullopt;
  Finding finding;
  finding.id = stays ? "growth-levelled-off" : "leak";
  finding.severity = stays ? Severity::note : Severity::severe;
  finding.title = report::words_for_leaks(leaks);
  finding.cause = stays ? "Caches or pools filled up. This trace shows no leak."
                        : "Memory that is allocated there is not released.";
  finding.confidence = Confidence::likely;
  if (!stays && !is_long_enough(device)) call_it_short(device, finding);
  finding.figures = {{"gpu", device.device}, {"grown_bytes", leaks.late_bytes}, {"windows", leaks.windows}};
  if (device.last_time_us > device.first_time_us)
    finding.figures.push_back(
        {"trace_seconds", static_cast<double>(device.last_time_us - device.first_time_us) / 1e6});
  for (const snapshot::PlaceGrowth& place : leaks.places) {
    if (place.growth != leaks.growth) continue;
    const std::string words = place_words(snapshot, device, place.place);
    if (finding.evidence.empty()) {
      finding.figures.push_back({"level", level_of(words)});
      finding.figures.push_back({"owner", words});
    }
    finding.evidence.push_back(
        {"", 0, fmt::format("{} grew by {}", words, format_bytes({place.late_bytes}))});
    if (!stays && finding.cures.empty())
      finding.cures.push_back({"keep no tensors of an iteration: detach results before you store them",
                               "results.append(output.detach().cpu())",
                               Bytes{std::max(place.late_bytes, leaks.late_bytes)}});
    constexpr std::size_t kMostPlaces = 3;
    if (finding.evidence.size() == kMostPlaces) break;
  }
  return finding;
}

}  // namespace headroom::doctor
