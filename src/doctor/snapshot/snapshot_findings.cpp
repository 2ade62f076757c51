// Findings in a memory snapshot of PyTorch, for each device.
// To add one: write its function and add it to the list in snapshot_findings().
#include "doctor/snapshot/snapshot_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "report/snapshot/snapshot_words.h"

namespace headroom::doctor {
namespace {

using snapshot::DeviceAnalysis;

constexpr int kPlaceWidth = 160;
constexpr std::size_t kMostOfSnapshot = 3;
constexpr const char* kExpandable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";

std::string words_for_place(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device,
                            snapshot::PlaceIndex place) {
  return report::one_line_place(snapshot, device.places[place], kPlaceWidth);
}

bool is_defragmenting(const snapshot::RoomMaker& way) { return way.by == snapshot::RoomBy::defragmenting; }

std::optional<Finding> allocation_failed(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device) {
  if (device.ooms.empty()) return std::nullopt;
  const snapshot::OomAutopsy& oom = device.ooms.front();
  const bool in_pieces = std::ranges::any_of(oom.ways, is_defragmenting);
  Finding finding = finding_of(
      "pytorch-out-of-memory", Severity::severe, in_pieces ? Confidence::certain : Confidence::likely,
      fmt::format("GPU {} ran out of memory: {} were requested, {} were free on the device and {} in "
                  "PyTorch's segments",
                  device.device, format_bytes({oom.requested}), format_bytes({oom.device_free}),
                  format_bytes({oom.free_in_segments})),
      in_pieces ? "Fragmentation: the free blocks together were large enough, but no single block was."
      : oom.holders.empty() ? "Live allocations do not explain it: other processes held the memory."
                            : fmt::format("Live allocations filled the memory. Most of it is held by {}.",
                                          words_for_place(snapshot, device, oom.holders.front().place)),
      figures("gpu", device.device, "requested_bytes", oom.requested, "free_bytes", oom.device_free,
              "allocated_bytes", oom.totals.allocated, "reserved_bytes", oom.totals.reserved,
              "largest_free_block_bytes", oom.largest_fitting));
  finding.times = device.oom_count;
  for (std::size_t i = 0; i < std::min(kMostOfSnapshot, oom.holders.size()); ++i)
    finding.evidence.push_back(
        {.text = fmt::format("{} held by {}", format_bytes({oom.holders[i].bytes}),
                             words_for_place(snapshot, device, oom.holders[i].place))});
  for (const snapshot::RoomMaker& way : oom.ways)
    finding.cures.push_back({report::words_for_room(oom, way, snapshot.settings),
                             is_defragmenting(way) ? kExpandable : "", Bytes{way.bytes}});
  return finding;
}

// A step of inference or training takes milliseconds to seconds, and memory that a step keeps on purpose,
// such as activations, grows for that time. Growth in less than a second, or less than 32 times at one place,
// is no leak yet. In a trace without times, the number of allocations decides alone.
bool is_long_enough(const DeviceAnalysis& device) {
  constexpr std::int64_t kLeastUs = 1'000'000, kLeastTimes = 32, kLeastUsOfMany = 100'000;
  const std::int64_t span_us = device.last_time_us - device.first_time_us;
  if (span_us >= kLeastUs) return true;
  if (span_us > 0 && span_us < kLeastUsOfMany) return false;
  return std::ranges::any_of(device.leaks.places, [](const snapshot::PlaceGrowth& place) {
    return place.growth == monitoring::Growth::leak && place.allocations >= kLeastTimes;
  });
}

// The level that repeats where the tensors are kept, by the first of these words in the place's functions.
std::string level_of(std::string_view place) {
  constexpr std::pair<std::string_view, std::string_view> kLevels[] = {
      {"object", "object"}, {"track", "object"}, {"detection", "object"},
      {"video", "video"},   {"clip", "video"},   {"stream", "video"},
      {"model", "model"},   {"engine", "model"}, {"checkpoint", "model"}};
  const std::string text = to_lower(place);
  std::size_t first = text.npos;
  std::string_view level = "process";
  for (const auto& [word, its_level] : kLevels)
    if (const std::size_t at = text.find(word); at < first) {
      first = at;
      level = its_level;
    }
  return std::string(level);
}

std::optional<Finding> leak_of_places(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device) {
  const snapshot::SnapshotLeaks& leaks = device.leaks;
  const bool stays = leaks.growth == monitoring::Growth::grew_then_stayed;
  if (leaks.growth != monitoring::Growth::leak && !(stays && leaks.late_bytes > 0)) return std::nullopt;
  Finding finding =
      finding_of(stays ? "growth-levelled-off" : "leak", stays ? Severity::note : Severity::severe,
                 Confidence::likely, report::words_for_leaks(leaks),
                 stays ? "Caches or pools filled up. This trace shows no leak."
                       : "Memory that is allocated there is not released.",
                 figures("gpu", device.device, "grown_bytes", leaks.late_bytes, "windows", leaks.windows));
  const std::int64_t span_us = device.last_time_us - device.first_time_us;
  if (span_us > 0) finding.figures.push_back({"trace_seconds", static_cast<double>(span_us) / 1e6});
  if (!stays && !is_long_enough(device)) {
    finding.severity = Severity::warning;
    finding.confidence = Confidence::possible;
    finding.cause = fmt::format(
        "In a trace {}, memory that one step keeps until its end looks like a leak. Record more steps to be "
        "sure.",
        span_us > 0 ? "of " + format_duration({span_us * 1000}) : "of so few allocations");
  }
  for (const snapshot::PlaceGrowth& place : leaks.places) {
    if (place.growth != leaks.growth) continue;
    const std::string words = words_for_place(snapshot, device, place.place);
    if (finding.evidence.empty()) {
      add_figures(finding, "level", level_of(words), "owner", words);
      if (!stays)
        finding.cures = {{"keep no tensors of an iteration: detach results before you store them",
                          "results.append(output.detach().cpu())",
                          Bytes{std::max(place.late_bytes, leaks.late_bytes)}}};
    }
    finding.evidence.push_back(
        {.text = fmt::format("{} grew by {}", words, format_bytes({place.late_bytes}))});
    if (finding.evidence.size() == kMostOfSnapshot) break;
  }
  return finding;
}

// The cost of free blocks inside segments.
enum class Cost {
  none,  // they are filled again
  idle,  // other processes could use the memory
  grew,  // PyTorch reserved more although the program needed no more, or an allocation failed for it
};

Cost cost_of(const DeviceAnalysis& device) {
  for (const snapshot::OomAutopsy& oom : device.ooms)
    if (std::ranges::any_of(oom.ways, is_defragmenting)) return Cost::grew;
  // In the second half of the trace, the reserved memory grew by more than the allocations did.
  struct Half {
    std::int64_t reserved = 0, allocated = 0;
  } first, second;
  const auto& points = device.timeline.points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Half& half = 2 * i < points.size() ? first : second;
    half.reserved = std::max(half.reserved, points[i].reserved);
    half.allocated = std::max(half.allocated, points[i].highest);
  }
  constexpr std::int64_t kMuchGrowth = 32 << 20;
  const std::int64_t needed = std::max<std::int64_t>(0, second.allocated - first.allocated);
  if (points.size() > 1 && second.reserved - first.reserved - needed >= kMuchGrowth) return Cost::grew;
  return 10 * device.peak_allocated_bytes >= 7 * device.peak_reserved_bytes && device.peak_reserved_bytes > 0
             ? Cost::none
             : Cost::idle;
}

std::optional<Finding> segment_fragmentation(const snapshot::Snapshot& snapshot,
                                             const DeviceAnalysis& device) {
  if (device.worst >= device.moments.size()) return std::nullopt;
  const snapshot::SnapshotMoment& worst = device.moments[device.worst];
  constexpr double kMuch = 0.3;
  constexpr std::int64_t kLeast = 64 << 20;
  if (worst.external() < kMuch || worst.free_bytes < kLeast) return std::nullopt;
  if (worst.largest_free_bytes > worst.free_bytes / 2) return std::nullopt;  // new blocks fit in it
  const Cost cost = cost_of(device);
  if (cost == Cost::none) return std::nullopt;
  Finding finding = finding_of(
      "fragmentation", cost == Cost::grew ? Severity::warning : Severity::note, Confidence::certain,
      fmt::format("GPU {}: of {} that PyTorch had reserved, {} were free, the largest block {}",
                  device.device, format_bytes({worst.totals.reserved}), format_bytes({worst.free_bytes}),
                  format_bytes({worst.largest_free_bytes})),
      cost == Cost::grew
          ? "A segment stays reserved while one block in it is live, so PyTorch had to reserve new segments."
          : "A segment stays reserved while one block in it is live. It cost nothing in this trace, but no "
            "other process can use that memory.",
      figures("gpu", device.device, "reserved_bytes", worst.totals.reserved, "allocated_bytes",
              worst.totals.allocated, "free_bytes", worst.free_bytes, "largest_free_block_bytes",
              worst.largest_free_bytes),
      {{"let PyTorch grow its segments (2.1 and later, not on a Jetson; otherwise max_split_size_mb:128)",
        kExpandable, Bytes{worst.free_bytes}},
       {"release free segments between two models", "torch.cuda.empty_cache()"}});
  if (worst.blocker) {
    const auto& block = worst.blocker->block;
    const std::string words = report::one_line_place(
        snapshot, {block.stack, block.stack.index == 0 ? std::optional(block.requested) : std::nullopt},
        kPlaceWidth);
    finding.evidence.push_back(
        {.text = fmt::format("in the way: {} from {}", format_bytes({block.size}), words)});
    finding.figures.push_back({"blocker", words});
  }
  return finding;
}

}  // namespace

std::vector<Finding> snapshot_findings(const snapshot::Snapshot& snapshot,
                                       const std::vector<DeviceAnalysis>& devices, const std::string& file) {
  std::vector<Finding> findings;
  for (const DeviceAnalysis& device : devices)
    for (const auto look_for : {allocation_failed, leak_of_places, segment_fragmentation})
      if (std::optional<Finding> found = look_for(snapshot, device)) findings.push_back(std::move(*found));
  complete_evidence(findings, file);
  return findings;
}

}  // namespace headroom::doctor
