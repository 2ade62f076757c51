#include <fmt/format.h>

#include "base/text.h"
#include "doctor/recording/live_places.h"
#include "doctor/recording/recording_finding.h"

namespace headroom::doctor {

// Or silence would be read as "no leak".
std::vector<Finding> leaks_not_judged(const RecordingFacts& facts) {
  const auto& analysis = facts.analysis;
  if (!analysis.host_recorded || analysis.leaks.growth != monitoring::Growth::unknown) return {};
  if (analysis.events == 0 && !analysis.complete) return {};          // nothing of it is there, which is told
  if (auto grown = steady_growth(facts)) return {std::move(*grown)};  // which tells more
  Finding finding;
  finding.id = "leaks-not-judged";
  finding.severity = Severity::note;
  finding.title = "Headroom did not check for leaks: no layer repeats in the recording";
  constexpr std::int64_t kWorthTelling = 1 << 20;
  const std::int64_t live = analysis.leaked_bytes.value;
  if (live >= kWorthTelling) {
    finding.title = fmt::format(
        "{} were live at the end; Headroom did not check for leaks: no layer repeats in the recording",
        format_bytes({live}));
    finding.evidence = live_places(analysis, facts.place_words, LiveAt::end);
    finding.figures = {{"live_bytes", live}, {"live_blocks", analysis.leaked_blocks.value}};
  }
  finding.cause =
      "A leak is memory that remains after each of several equal rounds. The recording has no layer that was "
      "entered and left six times.";
  finding.cures = {
      {"record more rounds, and mark each one: NVTX ranges, headroom scopes, model runs", "", {}}};
  if (live >= kWorthTelling)
    finding.cures.push_back({"see what was live at the end, with call stacks",
                             fmt::format("headroom report {}", shell_word(facts.file)),
                             {}});
  return {std::move(finding)};
}

}  // namespace headroom::doctor
