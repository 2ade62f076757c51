#include <fmt/format.h>

#include <algorithm>

#include "doctor/snapshot/snapshot_finding.h"
#include "report/snapshot/snapshot_words.h"

namespace headroom::doctor {
namespace {

// What free pieces cost.
enum class Cost {
  none,  // they are filled again
  idle,  // memory that others could use
  grew,  // more was reserved though no more was asked for, or an allocation failed for it
};

Cost cost_of(const DeviceAnalysis& device) {
  for (const snapshot::OomAutopsy& oom : device.ooms)
    for (const snapshot::RoomMaker& way : oom.ways)
      if (way.by == snapshot::RoomBy::defragmenting) return Cost::grew;
  // The second half of the trace against the first: reserved more than allocations grew by.
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
  const std::int64_t asked = std::max<std::int64_t>(0, second.allocated - first.allocated);
  if (points.size() > 1 && second.reserved - first.reserved - asked >= kMuchGrowth) return Cost::grew;
  return 10 * device.peak_allocated_bytes >= 7 * device.peak_reserved_bytes && device.peak_reserved_bytes > 0
             ? Cost::none
             : Cost::idle;
}

}  // namespace

std::optional<Finding> segment_fragmentation(const snapshot::Snapshot& snapshot,
                                             const DeviceAnalysis& device) {
  if (device.moments.empty() || device.worst >= device.moments.size()) return std::nullopt;
  const snapshot::SnapshotMoment& worst = device.moments[device.worst];
  constexpr double kMuch = 0.3;
  constexpr std::int64_t kWorthTelling = 64 << 20;
  if (worst.external() < kMuch || worst.free_bytes < kWorthTelling) return std::nullopt;
  if (worst.largest_free_bytes > worst.free_bytes / 2)
    return std::nullopt;  // whatever is asked for finds room in it
  const Cost cost = cost_of(device);
  if (cost == Cost::none) return std::nullopt;
  Finding finding;
  finding.id = "fragmentation";
  finding.severity = cost == Cost::grew ? Severity::warning : Severity::note;
  finding.title = fmt::format("GPU {}: of {} that PyTorch had reserved, {} were free, the largest block {}",
                              device.device, format_bytes({worst.totals.reserved}),
                              format_bytes({worst.free_bytes}), format_bytes({worst.largest_free_bytes}));
  finding.cause =
      cost == Cost::grew
          ? "A segment stays reserved while one block in it is live, so PyTorch had to reserve new segments."
          : "A segment stays reserved while one block in it is live. It cost nothing in this trace, but no "
            "other process can use that memory.";
  finding.figures = {{"gpu", device.device},
                     {"reserved_bytes", worst.totals.reserved},
                     {"allocated_bytes", worst.totals.allocated},
                     {"free_bytes", worst.free_bytes},
                     {"largest_free_block_bytes", worst.largest_free_bytes}};
  if (worst.blocker) {
    const auto& block = worst.blocker->block;
    const std::string words = report::one_line_place(
        snapshot, {block.stack, block.stack.index == 0 ? std::optional(block.requested) : std::nullopt},
        kPlaceWidth);
    finding.evidence.push_back(
        {"", 0, fmt::format("in the way: {} from {}", format_bytes({block.size}), words)});
    finding.figures.push_back({"blocker", words});
  }
  finding.cures = {
      {"let PyTorch grow its segments (2.1 and later, not on a Jetson; otherwise max_split_size_mb:128)",
       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", Bytes{worst.free_bytes}},
      {"release free segments between two models", "torch.cuda.empty_cache()", {}}};
  return finding;
}

}  // namespace headroom::doctor
