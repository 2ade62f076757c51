#include <fmt/format.h>

#include <algorithm>

#include "doctor/snapshot/snapshot_finding.h"
#include "report/snapshot/snapshot_words.h"

namespace headroom::doctor {
namespace {

Cure cure_of(const snapshot::OomAutopsy& oom, const snapshot::RoomMaker& way,
             const snapshot::AllocatorSettings& settings) {
  Cure cure{report::words_for_room(oom, way, settings), "", Bytes{way.bytes}};
  if (way.by == snapshot::RoomBy::defragmenting)
    cure.command = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  return cure;
}

}  // namespace

std::optional<Finding> allocation_failed(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device) {
  if (device.ooms.empty()) return std::nullopt;
  const snapshot::OomAutopsy& oom = device.ooms.front();
  Finding finding;
  finding.id = "pytorch-out-of-memory";
  finding.severity = Severity::severe;
  finding.times = device.oom_count;
  finding.title = fmt::format(
      "GPU {} ran out of memory: {} were requested, {} were free on the device and {} in PyTorch's segments",
      device.device, format_bytes({oom.requested}), format_bytes({oom.device_free}),
      format_bytes({oom.free_in_segments}));
  const bool in_pieces = std::any_of(oom.ways.begin(), oom.ways.end(), [](const snapshot::RoomMaker& way) {
    return way.by == snapshot::RoomBy::defragmenting;
  });
  finding.cause =
      in_pieces ? "Fragmentation: the free blocks together were large enough, but no single block was."
      : oom.holders.empty() ? "Live allocations do not explain it: other processes held the memory."
                            : fmt::format("Live allocations filled the memory. Most of it is held by {}.",
                                          place_words(snapshot, device, oom.holders.front().place));
  finding.confidence = in_pieces ? Confidence::certain : Confidence::likely;
  constexpr std::size_t kHolders = 3;
  for (std::size_t i = 0; i < std::min(kHolders, oom.holders.size()); ++i)
    finding.evidence.push_back({"", 0,
                                fmt::format("{} held by {}", format_bytes({oom.holders[i].bytes}),
                                            place_words(snapshot, device, oom.holders[i].place))});
  finding.figures = {{"gpu", device.device},
                     {"requested_bytes", oom.requested},
                     {"free_bytes", oom.device_free},
                     {"allocated_bytes", oom.totals.allocated},
                     {"reserved_bytes", oom.totals.reserved},
                     {"largest_free_block_bytes", oom.largest_fitting}};
  for (const snapshot::RoomMaker& way : oom.ways)
    finding.cures.push_back(cure_of(oom, way, snapshot.settings));
  return finding;
}

}  // namespace headroom::doctor
