// To add a finding: write its function and add it to the list in recording_findings().
#include "doctor/recording/recording_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/utf8.h"
#include "doctor/cure_commands.h"
#include "monitoring/series_growth.h"
#include "report/recording/recording_words.h"
#include "report/words.h"

namespace headroom::doctor {
namespace {

struct RecordingFacts {
  const attribution::RecordingAnalysis& analysis;
  const std::vector<std::int64_t>& grown_by_layer;  // growth_by_layer()
  const std::string& file;
  const PlaceWords& place_words;
};

std::vector<Finding> recording_incomplete(const RecordingFacts& facts) {
  if (facts.analysis.complete || facts.analysis.problems.empty()) return {};
  return {finding_of("recording-incomplete", Severity::note, Confidence::certain,
                     "The recording is incomplete: figures may be too small",
                     facts.analysis.problems.front())};
}

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
  Finding finding = finding_of(
      stays ? "growth-levelled-off" : "leak", stays ? Severity::note : Severity::severe, Confidence::likely,
      stays ? fmt::format("Memory grew by {} over the first cycles of {} and then stayed the same",
                          format_bytes({grown_in_all}), leaks.cycle)
            : title_of_leak(leaks, level),
      stays ? "Arenas, caches or pools filled up. This recording shows no leak."
            : fmt::format("Memory allocated in {0} is not released when {0} ends.", owner),
      figures("level", level, "owner", owner, "cycle", leaks.cycle, "cycles", leaks.cycles, "grown_bytes",
              grown_in_all));
  if (!stays) {
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

// Steady growth of the whole process.
std::optional<Finding> leak_of_process(const RecordingFacts& facts) {
  const attribution::RecordingAnalysis& analysis = facts.analysis;
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
  using Live = attribution::LiveFigures;
  const std::int64_t live = analysis.leaked_bytes.value;
  const Bytes rate{std::llround(growth.per_cycle * static_cast<double>(kStretches) / (until / 1e9))};
  Finding finding = finding_of(
      "leak", Severity::warning, Confidence::possible,
      fmt::format("The program's memory grew steadily, by {} per second, until its end", format_bytes(rate)),
      "A leak, or data that the program collects on purpose. No layer repeats in the recording, so Headroom "
      "cannot check what each round keeps.",
      figures("level", "process", "grown_bytes", late, "bytes_per_second", rate.count, "live_bytes", live),
      {open_report("see what holds it at the peak, with call stacks", facts.file, Bytes{late}),
       {"mark each round (NVTX ranges, headroom scopes, model runs) and record again, to see what each round "
        "keeps"}},
      live_places(facts, &Live::peak_bytes, &Live::peak_blocks));
  if (live < late / 2) finding.cause += " The program released most of it when it ended.";
  return finding;
}

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
  if (auto leak = leak_of_process(facts)) return {std::move(*leak)};
  Finding finding =
      finding_of("leaks-not-judged", Severity::note, Confidence::certain,
                 "Headroom did not check for leaks: no layer repeats in the recording",
                 "A leak is memory that remains after each of several equal rounds. The recording has no "
                 "layer that was entered and left six times.",
                 {}, {{"record more rounds, and mark each one: NVTX ranges, headroom scopes, model runs"}});
  const std::int64_t live = analysis.leaked_bytes.value;
  if (live >= kLeastOfLeak) {
    using Live = attribution::LiveFigures;
    finding.title = fmt::format(
        "{} were live at the end; Headroom did not check for leaks: no layer repeats in the recording",
        format_bytes({live}));
    finding.evidence = live_places(facts, &Live::end_bytes, &Live::end_blocks);
    finding.figures = figures("live_bytes", live, "live_blocks", analysis.leaked_blocks.value);
    finding.cures.push_back(open_report("see what was live at the end, with call stacks", facts.file));
  }
  return {std::move(finding)};
}

std::string amount(std::int64_t bytes) { return format_bytes(Bytes{bytes}); }

// ", its pools, graphs and shared granules 96.0 MiB, process 4711 (python3) 2.00 GiB".
std::string words_for_rest(const attribution::DeviceRefusal& refusal) {
  const attribution::DeviceRest rest = attribution::rest_of(refusal);
  std::string words;
  if (rest.kept > 0) words += fmt::format(", its pools, graphs and shared granules {}", amount(rest.kept));
  for (const attribution::DeviceProcess& process : rest.others) {
    std::string name = process.is_elsewhere ? " in another container" : "";
    if (name.empty() && !process.name.empty())
      name = fmt::format(" ({})", without_control_characters(process.name));
    words += fmt::format(", process {}{} {}", process.pid, name, amount(process.bytes));
  }
  if (rest.unknown == 0) return words;
  const std::string unknown = amount(rest.unknown);
  if (rest.names_none) return words + ", other processes (or pools and graphs) " + unknown;
  return words + (rest.has_more_processes ? fmt::format(", more processes {}", unknown)
                                          : fmt::format(", and others released {} in the meantime", unknown));
}

Finding refused_on(const attribution::DeviceFigures& device, const RecordingFacts& facts) {
  // After a large request fails, smaller ones often fail too: the largest is the best example.
  const attribution::DeviceRefusal& refusal =
      *std::ranges::max_element(device.refusals, std::less{}, &attribution::DeviceRefusal::bytes);
  const std::int64_t own = refusal.own_bytes + refusal.rounding_bytes;
  Finding finding = finding_of(
      "gpu-limit-refused", Severity::warning, Confidence::certain,
      fmt::format("The limit of {} refused {} for memory of GPU {}", amount(refusal.limit),
                  report::counted(device.refused_count, "request"), device.ordinal),
      fmt::format(
          "The largest requested {} when {} were charged. Holders of the charged memory: the program {}{}.",
          amount(refusal.bytes), amount(refusal.charged), amount(own), words_for_rest(refusal)),
      figures("gpu", std::int64_t{device.ordinal}, "limit_bytes", refusal.limit, "refused_requests",
              device.refused_count, "requested_bytes", refusal.bytes, "charged_bytes", refusal.charged,
              "own_bytes", own),
      {open_report("see each refused request, and what held the memory", facts.file)});
  if (facts.place_words) {
    constexpr std::size_t kMostHolders = 3;
    finding.evidence.push_back({.text = "refused: " + facts.place_words(refusal.stack)});
    for (std::size_t i = 0; i < std::min(kMostHolders, refusal.holders.size()); ++i)
      finding.evidence.push_back({.text = fmt::format("{} held by {}", amount(refusal.holders[i].bytes),
                                                      facts.place_words(refusal.holders[i].stack))});
  }
  if (const std::int64_t missing = refusal.charged + refusal.bytes - refusal.limit; missing > 0)
    finding.cures.push_back({fmt::format(
        "raise the limit by {} or more, or reduce the program's memory by as much", amount(missing))});
  return finding;
}

// Holes that later blocks fill again cost nothing: inference frees the blocks of a step and allocates them
// again in the next. Then, at a later moment, a heap of at most 110 % of this extent has 70 % of this extent
// in live blocks.
bool is_filled_again(const attribution::HeapFragmentation& heap,
                     const attribution::FragmentationMoment& worst) {
  return std::ranges::any_of(heap.moments, [&](const auto& later) {
    return later.time > worst.time &&
           10 * (later.extent_bytes - later.free_bytes) >= 7 * worst.extent_bytes &&
           10 * later.extent_bytes <= 11 * worst.extent_bytes;
  });
}

// A block that glibc maps separately leaves no hole. The threshold is the mean size of the holes, rounded
// down to a power of two. 0 for holes that are too small: each mapping takes a system call, a page of
// rounding, and one of the process's 65,530 mappings.
std::int64_t mapping_threshold(const attribution::FragmentationMoment& worst) {
  constexpr std::int64_t kSmallest = 32 << 10, kDefaultOfGlibc = 128 << 10;
  if (worst.holes <= 0) return kDefaultOfGlibc;
  const auto mean = static_cast<std::uint64_t>(worst.free_bytes / worst.holes);
  const auto threshold = static_cast<std::int64_t>(std::bit_floor(mean));
  return threshold < kSmallest ? 0 : std::min(threshold, kDefaultOfGlibc);
}

std::vector<Finding> gpu_limit_refused(const RecordingFacts& facts) {
  std::vector<Finding> findings;
  for (const attribution::DeviceFigures& device : facts.analysis.devices)
    if (!device.refusals.empty()) findings.push_back(refused_on(device, facts));
  return findings;
}

std::vector<Finding> heap_fragmentation(const RecordingFacts& facts) {
  const auto& heap = facts.analysis.fragmentation;
  if (!facts.analysis.host_recorded || !heap || heap->worst >= heap->moments.size()) return {};
  const attribution::FragmentationMoment& worst = heap->moments[heap->worst];
  constexpr double kMuch = 0.3;
  constexpr std::int64_t kLeast = 32 << 20;
  if (worst.external() < kMuch || worst.free_bytes < kLeast) return {};
  if (worst.largest_free_bytes > worst.free_bytes / 2) return {};  // new blocks fit in it
  if (is_filled_again(*heap, worst)) return {};
  const Bytes free{worst.free_bytes};
  Finding finding =
      finding_of("fragmentation", Severity::warning, Confidence::likely,
                 fmt::format("The heap spanned {}, of which {} were in {} holes", amount(worst.extent_bytes),
                             format_bytes(free), worst.holes),
                 "Long-lived blocks lie between released blocks, so the heap cannot shrink.",
                 figures("heap_bytes", worst.extent_bytes, "live_bytes", worst.live_bytes, "free_bytes",
                         worst.free_bytes, "largest_free_block_bytes", worst.largest_free_bytes),
                 {open_report("see which blocks keep the heap from shrinking, and allocate them first",
                              facts.file, free)});
  if (worst.blocker) finding.figures.push_back({"blocker_bytes", worst.blocker->bytes});
  // glibc uses the heap's end before it maps a block, and extends the heap by 128 KiB at a time. So with the
  // threshold alone, half of a test's holes stayed; with both settings, none.
  if (const std::int64_t threshold = mapping_threshold(worst); threshold > 0)
    finding.cures.push_back(
        {"let glibc map blocks of the size of the holes separately",
         fmt::format("MALLOC_MMAP_THRESHOLD_={} MALLOC_TOP_PAD_={}", threshold, threshold / 2), free});
  finding.cures.push_back(
      {"release the pages of the holes after the short-lived blocks are freed", "malloc_trim(0);"});
  return {std::move(finding)};
}

}  // namespace

std::vector<std::int64_t> growth_by_layer(recording::Recording& recording,
                                          const attribution::RecordingAnalysis& analysis) {
  if (!analysis.host_recorded || analysis.leaks.growth != monitoring::Growth::leak) return {};
  const std::array times{Nanoseconds{analysis.duration.count / 2}, analysis.duration};
  const auto moments = attribution::live_at(recording, times);
  if (moments.size() != times.size()) return {};
  std::vector<std::int64_t> grown = moments[1].bytes_by_layer;
  for (std::size_t i = 0; i < std::min(grown.size(), moments[0].bytes_by_layer.size()); ++i)
    grown[i] -= moments[0].bytes_by_layer[i];
  return grown;
}

std::vector<Finding> recording_findings(const attribution::RecordingAnalysis& analysis,
                                        const std::vector<std::int64_t>& grown, const std::string& file,
                                        const PlaceWords& place_words) {
  const RecordingFacts facts{analysis, grown, file, place_words};
  std::vector<Finding> findings;
  // In the order of the report among findings of equal severity.
  for (const auto look_for :
       {gpu_limit_refused, leaks_of_cycles, heap_fragmentation, leaks_not_judged, recording_incomplete})
    std::ranges::move(look_for(facts), std::back_inserter(findings));
  complete_evidence(findings, file);
  return findings;
}

}  // namespace headroom::doctor
