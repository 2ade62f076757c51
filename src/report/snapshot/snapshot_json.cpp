#include "report/snapshot/snapshot_words.h"

#include <algorithm>
#include <ranges>

#include "report/words.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr std::size_t kPlacesOfARanking = 50, kMostSegments = 2000;
// Names of templates reach kilobytes.
constexpr std::size_t kLongestName = 4000;

class Writer {
 public:
  Writer(const SnapshotReport& report, const SetPlace& set_place)
      : report_(report), snapshot_(report.snapshot), set_place_(set_place) {}

  Json document() const {
    Json json;
    json["schema_version"] = kSnapshotReportSchemaVersion;
    json["file"] = report_.file;
    json["kind"] = "pytorch_snapshot";
    json["problems"] = snapshot_.problems;
    json["settings"] = settings();
    json["devices"] = json_list(report_.devices, [&](const auto& device) { return device_json(device); });
    return json;
  }

 private:
  Json settings() const {
    Json json = Json::object();
    set_if(json, "text", snapshot_.settings.text);
    set_if(json, "expandable_segments", snapshot_.settings.expandable_segments);
    set_if(json, "max_split_bytes", snapshot_.settings.max_split_bytes);
    return json;
  }

  Json device_json(const snapshot::DeviceAnalysis& device) const {
    Json json;
    json["device"] = device.device;
    json["segments"] = device.segments;
    json["reserved_bytes"] = device.reserved_bytes;
    json["live_bytes"] = device.live_bytes;
    json["live_blocks"] = device.live_blocks;
    json["requested_bytes"] = device.requested_bytes;
    json["pending_free_bytes"] = device.pending_bytes;
    json["free_bytes"] = device.reserved_bytes - device.live_bytes - device.pending_bytes;
    json["largest_free_bytes"] = device.end.largest_free_bytes;
    json["peak_allocated_bytes"] = device.peak_allocated_bytes;
    json["peak_reserved_bytes"] = device.peak_reserved_bytes;
    json["peak_is_exact"] = device.doubt.empty();
    if (!device.doubt.empty()) json["doubt"] = device.doubt;
    json["peak_entry"] = device.peak_position;
    json["entries"] = device.entries;
    if (device.first_time_us > 0) {
      json["first_time_us"] = device.first_time_us;
      json["last_time_us"] = device.last_time_us;
    }
    json["allocated_before_bytes"] = device.before.allocated;
    json["reserved_before_bytes"] = device.before.reserved;
    Json& actions = json["actions"] = Json::object();
    for (std::size_t i = 0; i < snapshot::kActions; ++i)
      if (device.actions[i] > 0)
        actions[std::string(name_of(static_cast<snapshot::Action>(i)))] = device.actions[i];
    json["oom_count"] = device.oom_count;
    json["ooms"] = json_list(device.ooms, [&](const auto& oom) { return oom_json(device, oom); });
    json["leaks"] = leaks_json(device);
    json["fragmentation"] = fragmentation_json(device);
    json["stacks"] = stacks_json(device);
    json["timeline"] = timeline_json(device);
    json["segments_map"] = segments_json(device);
    return json;
  }

  void set_place(Json& json, const snapshot::DeviceAnalysis& device, snapshot::PlaceIndex index) const {
    set_place_(json, device.places[index]);
  }

  Json shares_json(const snapshot::DeviceAnalysis& device,
                   const std::vector<snapshot::PlaceShare>& shares) const {
    return json_list(shares, [&](const snapshot::PlaceShare& share) {
      Json json = {{"bytes", share.bytes}, {"blocks", share.blocks}};
      set_place(json, device, share.place);
      return json;
    });
  }

  Json oom_json(const snapshot::DeviceAnalysis& device, const snapshot::OomAutopsy& oom) const {
    Json json;
    json["entry"] = oom.position;
    if (oom.time_us > 0) json["time_us"] = oom.time_us;
    json["requested_bytes"] = oom.requested;
    json["segment_bytes"] = oom.segment;
    json["device_free_bytes"] = oom.device_free;
    json["stream"] = oom.stream;
    json["allocated_bytes"] = oom.totals.allocated;
    json["reserved_bytes"] = oom.totals.reserved;
    json["pending_free_bytes"] = oom.pending_bytes;
    json["free_in_segments_bytes"] = oom.free_in_segments;
    json["fitting_free_bytes"] = oom.fitting_free;
    json["largest_fitting_free_bytes"] = oom.largest_fitting;
    set_place_(json, {oom.stack, {}});
    json["holders"] = shares_json(device, oom.holders);
    json["room"] = json_list(oom.ways, [&](const snapshot::RoomMaker& way) -> Json {
      return {{"by", name_of(way.by)},
              {"bytes", way.bytes},
              {"blocks", way.blocks},
              {"in_segment", way.as_hole},
              {"places", shares_json(device, way.places)}};
    });
    return json;
  }

  Json leaks_json(const snapshot::DeviceAnalysis& device) const {
    const snapshot::SnapshotLeaks& leaks = device.leaks;
    Json json;
    json["verdict"] = name_of(leaks.growth);
    if (leaks.growth == monitoring::Growth::unknown) return json;
    json["windows"] = leaks.windows;
    json["warm_up_windows"] = leaks.warm_up_windows;
    json["entries_per_window"] = leaks.entries_per_window;
    json["bytes_per_window"] = leaks.bytes_per_window;
    json["late_bytes"] = leaks.late_bytes;
    json["floor_bytes"] = leaks.floor_bytes;
    json["stacks"] =
        json_list(first_of(leaks.places, kPlacesOfARanking), [&](const snapshot::PlaceGrowth& growth) {
          Json place = {{"verdict", name_of(growth.growth)}, {"bytes_per_window", growth.bytes_per_window},
                        {"first_bytes", growth.first_bytes}, {"last_bytes", growth.last_bytes},
                        {"late_bytes", growth.late_bytes},   {"allocations", growth.allocations},
                        {"live_blocks", growth.live_blocks}};
          set_place(place, device, growth.place);
          return place;
        });
    return json;
  }

  Json fragmentation_json(const snapshot::DeviceAnalysis& device) const {
    Json moments = json_list(device.moments, [&](const snapshot::SnapshotMoment& moment) {
      Json json = {{"entry", moment.position}};
      if (moment.time_us > 0) json["time_us"] = moment.time_us;
      json["allocated_bytes"] = moment.totals.allocated;
      json["reserved_bytes"] = moment.totals.reserved;
      json["segments"] = moment.segments;
      json["free_bytes"] = moment.free_bytes;
      json["largest_free_bytes"] = moment.largest_free_bytes;
      json["holes"] = moment.holes;
      json["rounding_bytes"] = moment.rounding_bytes();
      json["external_ratio"] = moment.external();
      if (moment.blocker) json["blocker"] = blocker_json(device, *moment.blocker);
      return json;
    });
    return {{"worst", device.worst}, {"peak", device.peak}, {"moments", std::move(moments)}};
  }

  Json blocker_json(const snapshot::DeviceAnalysis& device, const snapshot::SnapshotBlocker& blocker) const {
    Json json = {{"address", blocker.block.address},
                 {"size_bytes", blocker.block.size},
                 {"segment_address", blocker.segment_address},
                 {"segment_bytes", blocker.segment_bytes},
                 {"freed_if_gone_bytes", blocker.freed_if_gone},
                 {"empties_segment", blocker.empties_segment}};
    if (blocker.block.born != snapshot::kBeforeTrace) {
      json["allocated_by_entry"] = blocker.block.born;
      const auto* trace = snapshot_.trace_of(device.device);
      if (const auto time = snapshot_.entry(*trace, blocker.block.born).time_us; time > 0)
        json["allocated_at_us"] = time;
    }
    if (blocker.block.stack.index != 0) set_place_(json, {blocker.block.stack, {}});
    return json;
  }

  // Those that lead in any ranking, the most bytes live first.
  Json stacks_json(const snapshot::DeviceAnalysis& device) const {
    std::vector<std::size_t> chosen;
    const auto take = [&](auto figure) {
      for (const std::size_t i : ranked(device.figures, figure, kPlacesOfARanking)) chosen.push_back(i);
    };
    take([](const snapshot::PlaceFigures& place) { return place.live_bytes; });
    take([](const snapshot::PlaceFigures& place) { return place.peak_bytes; });
    take([](const snapshot::PlaceFigures& place) { return place.allocated_bytes; });
    take([](const snapshot::PlaceFigures& place) { return place.allocations; });
    std::ranges::sort(chosen);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    return json_list(chosen, [&](std::size_t i) {
      const snapshot::PlaceFigures& place = device.figures[i];
      Json json = {{"live_bytes", place.live_bytes},    {"live_blocks", place.live_blocks},
                   {"at_peak_bytes", place.peak_bytes}, {"at_peak_blocks", place.peak_blocks},
                   {"allocations", place.allocations},  {"allocated_bytes", place.allocated_bytes}};
      set_place(json, device, place.place);
      return json;
    });
  }

  static Json timeline_json(const snapshot::DeviceAnalysis& device) {
    using Point = snapshot::SnapshotTimeline::Point;
    const auto column = [&](auto Point::*figure) {
      return json_list(device.timeline.points, [&](const Point& point) { return point.*figure; });
    };
    return {{"entries_per_point", device.timeline.entries_per_point},
            {"time_us", column(&Point::time_us)},
            {"lowest_bytes", column(&Point::lowest)},
            {"highest_bytes", column(&Point::highest)},
            {"reserved_bytes", column(&Point::reserved)}};
  }

  // The largest segments, by address.
  Json segments_json(const snapshot::DeviceAnalysis& device) const {
    return json_list(segments_shown(snapshot_, device.device), [&](const snapshot::Segment* segment) {
      std::int64_t live = 0, largest_free = 0, blocks = 0;
      for (const snapshot::Block& block : snapshot_.blocks_of(*segment)) {
        if (block.is_live()) {
          live += block.size;
          ++blocks;
        } else {
          largest_free = std::max(largest_free, block.size);
        }
      }
      Json json = {{"address", segment->address},
                   {"bytes", segment->size},
                   {"pool", segment->is_large ? "large" : "small"},
                   {"stream", segment->stream},
                   {"live_bytes", live},
                   {"live_blocks", blocks},
                   {"largest_free_bytes", largest_free}};
      if (segment->is_expandable) json["expandable"] = true;
      if (segment->in_private_pool) json["private_pool"] = true;
      if (segment->stack.index != 0) set_place_(json, {segment->stack, {}});
      return json;
    });
  }

  const SnapshotReport& report_;
  const snapshot::Snapshot& snapshot_;
  const SetPlace& set_place_;
};

// A frame as PyTorch has it.
Json frames_json(const snapshot::Snapshot& snapshot, snapshot::StackIndex stack) {
  return json_list(snapshot.frames_of(stack), [&](std::uint32_t i) -> Json {
    const snapshot::Frame& frame = snapshot.frames[i];
    return {{"name", snapshot.strings[frame.function].substr(0, kLongestName)},
            {"filename", snapshot.strings[frame.file].substr(0, kLongestName)},
            {"line", frame.line}};
  });
}

}  // namespace

std::vector<const snapshot::Segment*> segments_shown(const snapshot::Snapshot& snapshot,
                                                     std::int64_t device) {
  std::vector<const snapshot::Segment*> shown;
  for (const snapshot::Segment& segment : snapshot.segments_of(device)) shown.push_back(&segment);
  if (shown.size() > kMostSegments) {
    std::ranges::stable_sort(shown, [](const auto* a, const auto* b) { return a->size > b->size; });
    shown.resize(kMostSegments);
    std::ranges::sort(shown, [](const auto* a, const auto* b) { return a->address < b->address; });
  }
  return shown;
}

Json snapshot_document(const SnapshotReport& report, const SetPlace& set_place) {
  return Writer(report, set_place).document();
}

Json snapshot_to_json(const SnapshotReport& report) {
  return snapshot_document(report, [&](Json& json, const snapshot::AllocationPlace& place) {
    if (place.requested_bytes)
      json["request_bytes"] = *place.requested_bytes;
    else
      json["frames"] = frames_json(report.snapshot, place.stack);
  });
}

}  // namespace headroom::report
