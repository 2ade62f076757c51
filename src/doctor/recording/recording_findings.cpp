#include "doctor/recording/recording_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/utf8.h"
#include "doctor/cure_commands.h"
#include "report/words.h"

namespace headroom::doctor {

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

std::vector<Finding> recording_incomplete(const RecordingFacts& facts) {
  if (facts.analysis.complete || facts.analysis.problems.empty()) return {};
  return {Finding{.id = "recording-incomplete",
                  .severity = Severity::note,
                  .title = "The recording is incomplete: figures may be too small",
                  .cause = facts.analysis.problems.front()}};
}

std::vector<Finding> recording_findings(const attribution::RecordingAnalysis& analysis,
                                        const std::vector<std::int64_t>& grown, const std::string& file,
                                        const PlaceWords& place_words) {
  const RecordingFacts facts{analysis, grown, file, place_words};
  std::vector<Finding> findings;
  for (RecordingFinding* look_for : kRecordingFindings)
    for (Finding& found : look_for(facts)) {
      complete_evidence(found, file);
      findings.push_back(std::move(found));
    }
  return findings;
}

// Findings about requests that a limit of GPU memory refused, and about holes in the heap.

namespace {

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
  Finding finding{
      .id = "gpu-limit-refused",
      .severity = Severity::warning,
      .title = fmt::format("The limit of {} refused {} for memory of GPU {}", amount(refusal.limit),
                           report::counted(device.refused_count, "request"), device.ordinal),
      .cause = fmt::format(
          "The largest requested {} when {} were charged. Holders of the charged memory: the program {}{}.",
          amount(refusal.bytes), amount(refusal.charged), amount(own), words_for_rest(refusal)),
      .figures = {{"gpu", std::int64_t{device.ordinal}},
                  {"limit_bytes", refusal.limit},
                  {"refused_requests", device.refused_count},
                  {"requested_bytes", refusal.bytes},
                  {"charged_bytes", refusal.charged},
                  {"own_bytes", own}},
      .cures = {open_report("see each refused request, and what held the memory", facts.file)}};
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

}  // namespace

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
  Finding finding{
      .id = "fragmentation",
      .severity = Severity::warning,
      .title = fmt::format("The heap spanned {}, of which {} were in {} holes", amount(worst.extent_bytes),
                           format_bytes(free), worst.holes),
      .cause = "Long-lived blocks lie between released blocks, so the heap cannot shrink.",
      .confidence = Confidence::likely,
      .figures = {{"heap_bytes", worst.extent_bytes},
                  {"live_bytes", worst.live_bytes},
                  {"free_bytes", worst.free_bytes},
                  {"largest_free_block_bytes", worst.largest_free_bytes}},
      .cures = {open_report("see which blocks keep the heap from shrinking, and allocate them first",
                            facts.file, free)}};
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

}  // namespace headroom::doctor
