// Findings about leaks: of the layers that repeat, else of the whole process.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "doctor/cure_commands.h"
#include "doctor/recording/recording_findings.h"
#include "monitoring/series_growth.h"
#include "report/recording/recording_words.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kMostPlaces = 3;
constexpr std::int64_t kLeastOfLeak = 1 << 20;

// The layer inside the cycle that grew most: a leak per object also shows at the end of each video, but the
// missing release is the object's.
std::string owner_of(const RecordingFacts& facts, const std::string& cycle) {
  const auto& grown = facts.grown_by_layer;
  const auto& layers = facts.analysis.layers;
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

// The call stacks that keep most memory.
std::vector<Evidence> keepers(const attribution::LeakVerdict& leaks, const PlaceWords& place_words) {
  std::vector<Evidence> places;
  if (!place_words) return places;
  for (const attribution::StackGrowth& stack : leaks.stacks) {
    if (places.size() == kMostPlaces) break;
    if (leaks.tells(stack) && stack.late_bytes > 0)
      places.push_back({.text = fmt::format("{} more kept by {}", format_bytes({stack.late_bytes}),
                                            place_words(stack.stack))});
  }
  return places;
}

// The call stacks with most live memory, at the recording's peak or at its end.
std::vector<Evidence> live_places(const RecordingFacts& facts, std::int64_t attribution::LiveFigures::*bytes,
                                  std::int64_t attribution::LiveFigures::*blocks) {
  std::vector<Evidence> places;
  if (!facts.place_words) return places;
  constexpr std::int64_t kLeast = 256 << 10;
  std::vector<const attribution::StackFigures*> stacks;
  for (const attribution::StackFigures& stack : facts.analysis.stacks)
    if (stack.stack.index != 0 && stack.live.*bytes >= kLeast) stacks.push_back(&stack);
  std::ranges::stable_sort(stacks,
                           [bytes](const auto* a, const auto* b) { return a->live.*bytes > b->live.*bytes; });
  if (stacks.size() > kMostPlaces) stacks.resize(kMostPlaces);
  for (const attribution::StackFigures* stack : stacks)
    places.push_back({.text = fmt::format("{}{} in {} blocks, from {}", stack->sampled ? "about " : "",
                                          format_bytes({stack->live.*bytes}), stack->live.*blocks,
                                          facts.place_words(stack->stack))});
  return places;
}

// The title names the innermost level that has the leak: a leak per object shows at the end of each video,
// too.
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
  if (leaks.growth != monitoring::Growth::leak && !(stays && grown_in_all >= kLeastOfLeak)) return;
  const std::string owner = owner_of(facts, leaks.cycle), level = last_part(owner);
  Finding finding{
      .id = "growth-levelled-off",
      .severity = Severity::note,
      .title = fmt::format("Memory grew by {} over the first cycles of {} and then stayed the same",
                           format_bytes({grown_in_all}), leaks.cycle),
      .cause = "Arenas, caches or pools filled up. This recording shows no leak.",
      .confidence = Confidence::likely,
      .figures = {{"level", level},
                  {"owner", owner},
                  {"cycle", leaks.cycle},
                  {"cycles", leaks.cycles},
                  {"grown_bytes", grown_in_all}}};
  if (!stays) {
    finding.id = "leak";
    finding.severity = Severity::severe;
    finding.title = title_of_leak(leaks, level);
    finding.cause = fmt::format("Memory allocated in {0} is not released when {0} ends.", owner);
    finding.evidence = keepers(leaks, facts.place_words);
    finding.figures.push_back({"leak_bytes", static_cast<std::int64_t>(std::llround(leaks.bytes_per_cycle))});
    finding.cures = {open_report(
        fmt::format("see which call stacks keep the memory, and release it at the end of each {}", level),
        facts.file, grown_in_all > 0 ? std::optional(Bytes{grown_in_all}) : std::nullopt)};
  }
  findings.push_back(std::move(finding));
}

constexpr std::int64_t kLeastOfProcess = 8 << 20;
constexpr std::size_t kStretches = 40;

struct Grown {
  std::int64_t bytes = 0;
  double bytes_per_second = 0;
};

// The lowest figure in each of the equal stretches of time up to the peak: temporary memory of frames does
// not change it.
std::vector<std::int64_t> lowest_by_time(const attribution::RecordingAnalysis& analysis) {
  const auto& points = analysis.timeline.points;
  std::vector<std::int64_t> bytes;
  std::size_t next = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < kStretches; ++i) {
    const double share = static_cast<double>(i + 1) / kStretches;
    const double end = share * static_cast<double>(analysis.peak_time.count);
    std::int64_t lowest = last;
    for (; next < points.size() && static_cast<double>(points[next].start.count) < end; ++next) {
      lowest = std::min(lowest, points[next].lowest);
      last = points[next].last;
    }
    bytes.push_back(lowest);
  }
  return bytes;
}

std::optional<Grown> grown_steadily(const attribution::RecordingAnalysis& analysis) {
  // A program that loads for some seconds and ends also grows for all its life.
  constexpr Nanoseconds kShortest{5'000'000'000};
  constexpr std::size_t kFewestPoints = 20;
  // The peak of steady growth is at the end, before the program releases its memory.
  constexpr double kPeakIsLate = 0.85;
  // Most memory of a sound program is set up at the beginning. With a leak, the last two thirds of the time
  // add at least this share of the peak.
  constexpr double kLeastShare = 0.3;
  const double until = static_cast<double>(analysis.peak_time.count),
               whole = static_cast<double>(analysis.duration.count);
  if (analysis.duration < kShortest || analysis.timeline.points.size() < kFewestPoints ||
      until < kPeakIsLate * whole)
    return std::nullopt;
  const std::vector<std::int64_t> bytes = lowest_by_time(analysis);
  const std::int64_t late = bytes.back() - bytes[bytes.size() / 3];
  const auto noise = static_cast<std::int64_t>(4 * analysis.peak_bytes.standard_error.value_or(0));
  if (late < std::max(kLeastOfProcess, noise) ||
      static_cast<double>(late) < kLeastShare * static_cast<double>(analysis.peak_bytes.value))
    return std::nullopt;
  std::vector<std::int64_t> times(bytes.size());
  std::iota(times.begin(), times.end(), 0);
  const auto growth = monitoring::growth_of(times, bytes, static_cast<double>(kLeastOfProcess));
  // Growth in one or two steps is a new part of the program's work.
  if (growth.growth != monitoring::Growth::leak || growth.last_step > 0) return std::nullopt;
  return Grown{late, growth.per_cycle * static_cast<double>(kStretches) / (until / 1e9)};
}

Finding leak_of_process(const RecordingFacts& facts, const Grown& grown) {
  using Live = attribution::LiveFigures;
  const std::int64_t live = facts.analysis.leaked_bytes.value;
  const Bytes rate{std::llround(grown.bytes_per_second)};
  Finding finding{.id = "leak",
                  .severity = Severity::warning,
                  .title = fmt::format("The program's memory grew steadily, by {} per second, until its end",
                                       format_bytes(rate)),
                  .cause =
                      "A leak, or data that the program collects on purpose. No layer repeats in the "
                      "recording, so Headroom cannot check what each round keeps.",
                  .confidence = Confidence::possible,
                  .evidence = live_places(facts, &Live::peak_bytes, &Live::peak_blocks),
                  .figures = {{"level", "process"},
                              {"grown_bytes", grown.bytes},
                              {"bytes_per_second", rate.count},
                              {"live_bytes", live}},
                  .cures = {open_report("see what holds it at the peak, with call stacks", facts.file,
                                        Bytes{grown.bytes}),
                            {"mark each round (NVTX ranges, headroom scopes, model runs) and record again, "
                             "to see what each round keeps"}}};
  if (live < grown.bytes / 2) finding.cause += " The program released most of it when it ended.";
  return finding;
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

// Without this note, a report without leaks would mean "no leak". Steady growth of the process replaces the
// note.
std::vector<Finding> leaks_not_judged(const RecordingFacts& facts) {
  const auto& analysis = facts.analysis;
  if (!analysis.host_recorded || analysis.leaks.growth != monitoring::Growth::unknown) return {};
  if (analysis.events == 0 && !analysis.complete)
    return {};  // recording-incomplete covers an empty recording
  if (const auto grown = grown_steadily(analysis)) return {leak_of_process(facts, *grown)};
  Finding finding{
      .id = "leaks-not-judged",
      .severity = Severity::note,
      .title = "Headroom did not check for leaks: no layer repeats in the recording",
      .cause =
          "A leak is memory that remains after each of several equal rounds. The recording has no layer that "
          "was entered and left six times.",
      .cures = {{"record more rounds, and mark each one: NVTX ranges, headroom scopes, model runs"}}};
  const std::int64_t live = analysis.leaked_bytes.value;
  if (live >= kLeastOfLeak) {
    using Live = attribution::LiveFigures;
    finding.title = fmt::format(
        "{} were live at the end; Headroom did not check for leaks: no layer repeats in the recording",
        format_bytes({live}));
    finding.evidence = live_places(facts, &Live::end_bytes, &Live::end_blocks);
    finding.figures = {{"live_bytes", live}, {"live_blocks", analysis.leaked_blocks.value}};
    finding.cures.push_back(open_report("see what was live at the end, with call stacks", facts.file));
  }
  return {std::move(finding)};
}

}  // namespace headroom::doctor
