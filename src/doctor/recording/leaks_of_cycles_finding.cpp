#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/text.h"
#include "doctor/recording/recording_finding.h"
#include "report/recording/leak_words.h"

namespace headroom::doctor {
namespace {

// The layer inside the cycle that grew most: what is made for each object leaks at the end of each video,
// too, and it is the object's release that is missing.
std::string owner_of(const RecordingFacts& facts, const std::string& cycle) {
  const auto& [grown, layers] = std::tie(facts.grown_by_layer, facts.analysis.layers);
  std::string owner = cycle;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < std::min(grown.size(), layers.size()); ++i) {
    const std::string& path = layers[i].path;
    if (path != cycle && !path.starts_with(cycle + '/')) continue;
    if (grown[i] <= most) continue;
    most = grown[i];
    owner = path;
  }
  return owner;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The places that keep most, in words.
std::vector<Evidence> places_of(const attribution::LeakVerdict& leaks, const PlaceWords& place_words) {
  std::vector<Evidence> places;
  if (!place_words) return places;
  constexpr std::size_t kMostPlaces = 3;
  for (const attribution::StackGrowth& stack : leaks.stacks) {
    if (places.size() == kMostPlaces) break;
    if (!leaks.tells(stack) || stack.late_bytes <= 0) continue;
    places.push_back(
        {"", 0,
         fmt::format("{} more kept by {}", format_bytes({stack.late_bytes}), place_words(stack.stack))});
  }
  return places;
}

// What each object keeps is told at the end of each video, too: the title names the level that has it first.
std::string title_of_leak(const attribution::LeakVerdict& leaks, const std::string& level) {
  constexpr std::string_view kBegin = "Leak: ";
  std::string title = report::words_for_leaks(leaks);
  if (level == last_part(leaks.cycle) || !title.starts_with(kBegin)) return title;
  return fmt::format("Leak per {}: {}", level, title.substr(kBegin.size()));
}

void add_leak(const RecordingFacts& facts, const attribution::LeakVerdict& leaks,
              std::vector<Finding>& findings) {
  const bool stays = leaks.growth == monitoring::Growth::grew_then_stayed;
  const std::int64_t grown_in_all = std::max(
      leaks.late_bytes, leaks.live_bytes.empty() ? 0 : leaks.live_bytes.back() - leaks.live_bytes.front());
  constexpr std::int64_t kWorthTelling = 1 << 20;
  if (leaks.growth != monitoring::Growth::leak && !(stays && grown_in_all >= kWorthTelling)) return;
  Finding finding;
  finding.id = stays ? "growth-levelled-off" : "leak";
  finding.severity = stays ? Severity::note : Severity::severe;
  const std::string owner = owner_of(facts, leaks.cycle), level = last_part(owner);
  finding.title = stays
                      ? fmt::format("Memory grew by {} over the first cycles of {} and then stayed the same",
                                    format_bytes({grown_in_all}), leaks.cycle)
                      : title_of_leak(leaks, level);
  finding.cause = stays ? "Arenas, caches or pools filled up. This recording shows no leak."
                        : fmt::format("Memory allocated in {0} is not released when {0} ends.", owner);
  finding.confidence = Confidence::likely;
  finding.figures = {{"level", level},
                     {"owner", owner},
                     {"cycle", leaks.cycle},
                     {"cycles", leaks.cycles},
                     {"grown_bytes", grown_in_all}};
  if (!stays) {
    finding.evidence = places_of(leaks, facts.place_words);
    finding.figures.push_back({"leak_bytes", static_cast<std::int64_t>(std::llround(leaks.bytes_per_cycle))});
    finding.cures = {
        {fmt::format("see which call stacks keep the memory, and release it at the end of each {}", level),
         fmt::format("headroom report {}", shell_word(facts.file)),
         grown_in_all > 0 ? std::optional(Bytes{grown_in_all}) : std::nullopt}};
  }
  findings.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> leaks_of_cycles(const RecordingFacts& facts) {
  std::vector<Finding> findings;
  if (!facts.analysis.host_recorded) return findings;
  add_leak(facts, facts.analysis.leaks, findings);
  for (const attribution::LeakVerdict& other : facts.analysis.leaks.other_cycles)
    if (!other.same_places && other.growth == monitoring::Growth::leak) add_leak(facts, other, findings);
  return findings;
}

}  // namespace headroom::doctor
