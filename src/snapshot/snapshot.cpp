#include "snapshot/snapshot.h"

#include <algorithm>
#include <set>

namespace headroom::snapshot {

std::string_view name_of(Action action) {
  constexpr std::string_view kNames[kActions] = {
      "alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
      "segment_map", "segment_unmap",  "snapshot",       "oom",           "other"};
  return kNames[static_cast<std::size_t>(action)];
}

std::span<const Segment> Snapshot::segments_of(std::int64_t device) const {
  const auto begin = std::ranges::lower_bound(segments, device, {}, &Segment::device);
  const auto end = std::ranges::upper_bound(segments, device, {}, &Segment::device);
  return {begin, end};
}

const DeviceTrace* Snapshot::trace_of(std::int64_t device) const {
  const auto found = std::ranges::find(traces, device, &DeviceTrace::device);
  return found == traces.end() ? nullptr : &*found;
}

std::vector<std::int64_t> Snapshot::devices() const {
  std::set<std::int64_t> devices;
  for (const Segment& segment : segments) devices.insert(segment.device);
  for (const DeviceTrace& trace : traces) devices.insert(trace.device);
  return {devices.begin(), devices.end()};
}

}  // namespace headroom::snapshot
