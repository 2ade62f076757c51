#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/recording/recording_finding.h"

namespace headroom::doctor {
namespace {

// The places of most of what was live at the end.
std::vector<Evidence> live_places(const analysis::RecordingAnalysis& analysis,
                                  const PlaceWords& place_words) {
  std::vector<Evidence> places;
  if (!place_words) return places;
  std::vector<const analysis::StackFigures*> stacks;
  constexpr std::int64_t kWorthTelling = 256 << 10;
  for (const analysis::StackFigures& stack : analysis.stacks)
    if (stack.stack.index != 0 && stack.live.end_bytes >= kWorthTelling) stacks.push_back(&stack);
  std::stable_sort(stacks.begin(), stacks.end(),
                   [](const auto* a, const auto* b) { return a->live.end_bytes > b->live.end_bytes; });
  constexpr std::size_t kMostPlaces = 3;
  if (stacks.size() > kMostPlaces) stacks.resize(kMostPlaces);
  for (const analysis::StackFigures* stack : stacks)
    places.push_back({"", 0,
                      fmt::format("{}{} in {} blocks, of {}", stack->sampled ? "about " : "",
                                  format_bytes({stack->live.end_bytes}), stack->live.end_blocks,
                                  place_words(stack->stack))});
  return places;
}

}  // namespace

// Or silence would be read as "no leak".
std::vector<Finding> leaks_not_judged(const RecordingFacts& facts) {
  const auto& analysis = facts.analysis;
  if (!analysis.host_recorded || analysis.leaks.growth != analysis::Growth::unknown) return {};
  Finding finding;
  finding.id = "leaks-not-judged";
  finding.severity = Severity::note;
  finding.title = "Leaks were not looked for: no layer repeats in the recording";
  constexpr std::int64_t kWorthTelling = 1 << 20;
  const std::int64_t live = analysis.leaked_bytes.value;
  if (live >= kWorthTelling) {
    finding.title = fmt::format(
        "{} were live at the end; whether that is a leak was not looked for: no layer "
        "repeats in the recording",
        format_bytes({live}));
    finding.evidence = live_places(analysis, facts.place_words);
    finding.figures = {{"live_bytes", live}, {"live_blocks", analysis.leaked_blocks.value}};
  }
  finding.cause =
      "What stays after each of several equal rounds is a leak. The recording has no layer that was entered "
      "and "
      "left six times.";
  finding.cures = {
      {"record more rounds, and mark each: NVTX ranges, headroom's scopes, a model's runs", "", {}}};
  if (live >= kWorthTelling)
    finding.cures.push_back({"see what was live at the end, and from where",
                             fmt::format("headroom report {}", shell_word(facts.file)),
                             {}});
  return {std::move(finding)};
}

}  // namespace headroom::doctor
