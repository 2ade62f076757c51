#include "doctor/recording_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "report/leak_words.h"

namespace headroom::doctor {
namespace {

// The layer inside the cycle that grew most: what is made for each object leaks at the end of each video,
// too, and it is the object's release that is missing.
std::string owner_of(const analysis::RecordingAnalysis& analysis, const std::vector<std::int64_t>& grown,
                     const std::string& cycle) {
  std::string owner = cycle;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < std::min(grown.size(), analysis.layers.size()); ++i) {
    const std::string& path = analysis.layers[i].path;
    if (path != cycle && !path.starts_with(cycle + '/')) continue;
    if (grown[i] <= most) continue;
    most = grown[i];
    owner = path;
  }
  return owner;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The places that keep most, in words.
std::vector<Evidence> places_of(const analysis::LeakVerdict& leaks, const PlaceWords& place_words) {
  std::vector<Evidence> places;
  if (!place_words) return places;
  constexpr std::size_t kMostPlaces = 3;
  for (const analysis::StackGrowth& stack : leaks.stacks) {
    if (places.size() == kMostPlaces) break;
    if (!leaks.tells(stack) || stack.late_bytes <= 0) continue;
    places.push_back(
        {"", 0,
         fmt::format("{} more kept by {}", format_bytes({stack.late_bytes}), place_words(stack.stack))});
  }
  return places;
}

void add_leak(const analysis::RecordingAnalysis& analysis, const analysis::LeakVerdict& leaks,
              const std::vector<std::int64_t>& grown, const std::string& file, const PlaceWords& place_words,
              std::vector<Finding>& findings) {
  const bool stays = leaks.growth == analysis::Growth::grew_then_stayed;
  const std::int64_t grown_in_all = std::max(
      leaks.late_bytes, leaks.live_bytes.empty() ? 0 : leaks.live_bytes.back() - leaks.live_bytes.front());
  constexpr std::int64_t kWorthTelling = 1 << 20;
  if (leaks.growth != analysis::Growth::leak && !(stays && grown_in_all >= kWorthTelling)) return;
  Finding finding;
  finding.id = stays ? "growth-levelled-off" : "leak";
  finding.severity = stays ? Severity::note : Severity::severe;
  finding.title = report::words_for_leaks(leaks);
  const std::string owner = owner_of(analysis, grown, leaks.cycle), level = last_part(owner);
  finding.cause = stays ? "Arenas, caches and pools that filled: no leak by this recording."
                        : fmt::format("What is allocated in {} is kept when it is over.", owner);
  finding.confidence = Confidence::likely;
  finding.figures = {{"level", level},
                     {"owner", owner},
                     {"cycle", leaks.cycle},
                     {"cycles", leaks.cycles},
                     {"grown_bytes", grown_in_all}};
  if (!stays) {
    finding.evidence = places_of(leaks, place_words);
    finding.figures.push_back({"leak_bytes", static_cast<std::int64_t>(std::llround(leaks.bytes_per_cycle))});
    finding.cures = {
        {fmt::format("see the places that keep it, and release what they keep at the end of each {}", level),
         fmt::format("headroom report {}", shell_word(file)),
         grown_in_all > 0 ? std::optional(Bytes{grown_in_all}) : std::nullopt}};
  }
  findings.push_back(std::move(finding));
}

// Holes that later blocks fill again cost nothing: inference releases what a step needed and takes it again
// in the next. Then the same heap, or one hardly larger, holds 70 % of what it spans at some later moment.
bool is_filled_again(const analysis::HeapFragmentation& heap, const analysis::FragmentationMoment& worst) {
  return std::any_of(heap.moments.begin(), heap.moments.end(),
                     [&](const analysis::FragmentationMoment& later) {
                       return later.time > worst.time &&
                              10 * (later.extent_bytes - later.free_bytes) >= 7 * worst.extent_bytes &&
                              10 * later.extent_bytes <= 11 * worst.extent_bytes;
                     });
}

void add_fragmentation(const analysis::RecordingAnalysis& analysis, const std::string& file,
                       std::vector<Finding>& findings) {
  if (!analysis.fragmentation || analysis.fragmentation->worst >= analysis.fragmentation->moments.size())
    return;
  const analysis::FragmentationMoment& worst = analysis.fragmentation->moments[analysis.fragmentation->worst];
  constexpr double kMuch = 0.3;
  constexpr std::int64_t kWorthTelling = 32 << 20;
  if (worst.external() < kMuch || worst.free_bytes < kWorthTelling) return;
  if (worst.largest_free_bytes > worst.free_bytes / 2) return;  // whatever is asked for finds room in it
  if (is_filled_again(*analysis.fragmentation, worst)) return;
  Finding finding;
  finding.id = "fragmentation";
  finding.severity = Severity::warning;
  finding.title = fmt::format("Of a heap of {} {} lay in {} holes", format_bytes({worst.extent_bytes}),
                              format_bytes({worst.free_bytes}), worst.holes);
  finding.cause = "Blocks that live long lie between those that were released, so the heap cannot shrink.";
  finding.figures = {{"heap_bytes", worst.extent_bytes},
                     {"live_bytes", worst.live_bytes},
                     {"free_bytes", worst.free_bytes},
                     {"largest_free_block_bytes", worst.largest_free_bytes}};
  if (worst.blocker) finding.figures.push_back({"blocker_bytes", worst.blocker->bytes});
  finding.cures = {{"see which blocks are in the way, and allocate them first",
                    fmt::format("headroom report {}", shell_word(file)), Bytes{worst.free_bytes}},
                   {"let glibc map large blocks by themselves", "MALLOC_MMAP_THRESHOLD_=131072", {}}};
  findings.push_back(std::move(finding));
}

void add_problems(const analysis::RecordingAnalysis& analysis, std::vector<Finding>& findings) {
  if (analysis.complete || analysis.problems.empty()) return;
  Finding finding;
  finding.id = "recording-incomplete";
  finding.severity = Severity::note;
  finding.title = "The recording is not whole: figures may be too small";
  finding.cause = analysis.problems.front();
  findings.push_back(std::move(finding));
}

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

// Or silence would be read as "no leak".
void add_not_judged(const analysis::RecordingAnalysis& analysis, const std::string& file,
                    const PlaceWords& place_words, std::vector<Finding>& findings) {
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
    finding.evidence = live_places(analysis, place_words);
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
                             fmt::format("headroom report {}", shell_word(file)),
                             {}});
  findings.push_back(std::move(finding));
}

}  // namespace

std::vector<std::int64_t> growth_by_layer(recording::Recording& recording,
                                          const analysis::RecordingAnalysis& analysis) {
  if (!analysis.host_recorded || analysis.leaks.growth != analysis::Growth::leak) return {};
  const std::array times{Nanoseconds{analysis.duration.count / 2}, analysis.duration};
  const auto moments = analysis::live_at(recording, times);
  if (moments.size() != times.size()) return {};
  std::vector<std::int64_t> grown = moments[1].bytes_by_layer;
  for (std::size_t i = 0; i < std::min(grown.size(), moments[0].bytes_by_layer.size()); ++i)
    grown[i] -= moments[0].bytes_by_layer[i];
  return grown;
}

std::vector<Finding> recording_findings(const analysis::RecordingAnalysis& analysis,
                                        const std::vector<std::int64_t>& grown, const std::string& file,
                                        const PlaceWords& place_words) {
  std::vector<Finding> findings;
  if (analysis.host_recorded) {
    add_leak(analysis, analysis.leaks, grown, file, place_words, findings);
    for (const analysis::LeakVerdict& other : analysis.leaks.other_cycles)
      if (!other.same_places && other.growth == analysis::Growth::leak)
        add_leak(analysis, other, grown, file, place_words, findings);
    add_fragmentation(analysis, file, findings);
  }
  if (analysis.host_recorded && analysis.leaks.growth == analysis::Growth::unknown)
    add_not_judged(analysis, file, place_words, findings);
  add_problems(analysis, findings);
  for (Finding& finding : findings) {
    if (finding.evidence.empty()) finding.evidence.push_back({});
    for (Evidence& evidence : finding.evidence) evidence.file = file;
  }
  return findings;
}

}  // namespace headroom::doctor
