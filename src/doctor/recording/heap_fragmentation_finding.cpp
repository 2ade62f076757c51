#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/text.h"
#include "doctor/recording/recording_finding.h"

namespace headroom::doctor {
namespace {

// Holes that later blocks fill again cost nothing: inference releases what a step needed and takes it again
// in the next. Then the same heap, or one hardly larger, holds 70 % of what it spans at some later moment.
bool is_filled_again(const attribution::HeapFragmentation& heap,
                     const attribution::FragmentationMoment& worst) {
  return std::any_of(heap.moments.begin(), heap.moments.end(),
                     [&](const attribution::FragmentationMoment& later) {
                       return later.time > worst.time &&
                              10 * (later.extent_bytes - later.free_bytes) >= 7 * worst.extent_bytes &&
                              10 * later.extent_bytes <= 11 * worst.extent_bytes;
                     });
}

// Blocks of this size and more that glibc maps by themselves leave no holes. The holes tell how large those
// were that were released: their mean, down to a power of two. Smaller ones are left in the heap, as each
// mapping takes a system call, a page of rounding, and one of the 65,530 that a process may have.
std::int64_t mapping_threshold(const attribution::FragmentationMoment& worst) {
  constexpr std::int64_t kSmallest = 32 << 10, kGlibcs = 128 << 10;
  if (worst.holes <= 0) return kGlibcs;
  const auto mean = static_cast<std::uint64_t>(worst.free_bytes / worst.holes);
  const auto threshold = static_cast<std::int64_t>(std::bit_floor(mean));
  return threshold < kSmallest ? 0 : std::min(threshold, kGlibcs);
}

}  // namespace

std::vector<Finding> heap_fragmentation(const RecordingFacts& facts) {
  const auto& analysis = facts.analysis;
  if (!analysis.host_recorded) return {};
  if (!analysis.fragmentation || analysis.fragmentation->worst >= analysis.fragmentation->moments.size())
    return {};
  const attribution::FragmentationMoment& worst =
      analysis.fragmentation->moments[analysis.fragmentation->worst];
  constexpr double kMuch = 0.3;
  constexpr std::int64_t kWorthTelling = 32 << 20;
  if (worst.external() < kMuch || worst.free_bytes < kWorthTelling) return {};
  if (worst.largest_free_bytes > worst.free_bytes / 2) return {};  // whatever is asked for finds room in it
  if (is_filled_again(*analysis.fragmentation, worst)) return {};
  Finding finding;
  finding.id = "fragmentation";
  finding.severity = Severity::warning;
  finding.title =
      fmt::format("The heap spanned {}, of which {} were in {} holes", format_bytes({worst.extent_bytes}),
                  format_bytes({worst.free_bytes}), worst.holes);
  finding.cause = "Long-lived blocks lie between released blocks, so the heap cannot shrink.";
  finding.confidence = Confidence::likely;
  finding.figures = {{"heap_bytes", worst.extent_bytes},
                     {"live_bytes", worst.live_bytes},
                     {"free_bytes", worst.free_bytes},
                     {"largest_free_block_bytes", worst.largest_free_bytes}};
  if (worst.blocker) finding.figures.push_back({"blocker_bytes", worst.blocker->bytes});
  finding.cures = {{"see which blocks keep the heap from shrinking, and allocate them first",
                    fmt::format("headroom report {}", shell_word(facts.file)), Bytes{worst.free_bytes}}};
  if (const std::int64_t threshold = mapping_threshold(worst); threshold > 0)
    // glibc takes what fits from the heap's end before it maps, and grows that by 128 KiB at a time: with the
    // threshold alone half of the planted fault's holes stayed, with both none.
    finding.cures.push_back(
        {"let glibc map blocks of the size of the holes separately",
         fmt::format("MALLOC_MMAP_THRESHOLD_={} MALLOC_TOP_PAD_={}", threshold, threshold / 2),
         Bytes{worst.free_bytes}});
  finding.cures.push_back(
      {"release the pages of the holes after the short-lived blocks are freed", "malloc_trim(0);", {}});
  return {std::move(finding)};
}

}  // namespace headroom::doctor
