// A memory snapshot as JSON, and its page.
#include "report/snapshot/snapshot_views.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <ranges>
#include <unordered_map>
#include <utility>

#include "base/terminal.h"
#include "report/page.h"
#include "report/recording/stack_text.h"
#include "report/snapshot/snapshot_words.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace attribution;

// Adds to an object what says where: the frames of the stack, or without one how much was asked for.
using SetPlace = std::function<void(Json& object, const snapshot::AllocationPlace& place)>;

constexpr std::size_t kPlacesOfARanking = 50, kMostSegments = 2000;
// Names of templates reach kilobytes.
constexpr std::size_t kLongestName = 4000;

// The segments of a device that `segments_map` has, by address: of more than 2000 the largest.
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

// Writes a snapshot for the document and the page.
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
    using snapshot::PlaceFigures;
    const std::vector<std::size_t> chosen = ranked_by_any(
        device.figures, kPlacesOfARanking, [](const PlaceFigures& place) { return place.live_bytes; },
        [](const PlaceFigures& place) { return place.peak_bytes; },
        [](const PlaceFigures& place) { return place.allocated_bytes; },
        [](const PlaceFigures& place) { return place.allocations; });
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

// The page.

// A machine has a handful of GPUs; a file from elsewhere may name millions.
constexpr std::size_t kMostDevices = 16;
// Of all devices together; the others are one figure a moment.
constexpr std::size_t kMostPlaces = 4000;
// Innermost frames; PyTorch's own stacks are up to about 200 deep.
constexpr std::size_t kDeepestStack = 400;
constexpr std::size_t kLongestText = 2000;
constexpr int kCellsOfSegment = 120;
constexpr std::size_t kPlacesOverTime = 12;  // as the page has colours

// Live bytes by place; what waits for another stream is not allocated any more.
SnapshotLive::Moment live_of(const snapshot::DeviceState& state, snapshot::AllocationPlaces& places) {
  std::unordered_map<std::uint32_t, snapshot::PlaceShare> shares;
  SnapshotLive::Moment moment;
  for (const auto* blocks : {&state.blocks, &state.loose})
    for (const snapshot::HeldBlock& block : *blocks) {
      if (block.state != snapshot::BlockState::active_allocated) continue;
      const snapshot::PlaceIndex place = places.of(block.stack, block.requested);
      snapshot::PlaceShare& share = shares[place.index];
      share.place = place;
      share.bytes += block.size;
      ++share.blocks;
      moment.bytes += block.size;
      ++moment.blocks;
    }
  for (const auto& [index, share] : shares) moment.places.push_back(share);
  std::ranges::sort(moment.places, [](const snapshot::PlaceShare& a, const snapshot::PlaceShare& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.place < b.place;
  });
  if (moment.places.size() > kMostPlaces) moment.places.resize(kMostPlaces);
  return moment;
}

// Places as nodes of one tree of calls. Names are as on the terminal: a file without its folders.
class PlaceTree {
 public:
  explicit PlaceTree(const snapshot::Snapshot& snapshot) : snapshot_(snapshot) {}

  // Nothing where the page is full.
  std::optional<std::uint32_t> node_of(const snapshot::AllocationPlace& place) {
    const std::uint64_t key = place.requested_bytes
                                  ? static_cast<std::uint64_t>(*place.requested_bytes) << 1 | 1
                                  : std::uint64_t{place.stack.index} << 1;
    if (const auto known = nodes_.find(key); known != nodes_.end()) return known->second;
    if (calls_.is_full()) return {};
    std::uint32_t node = 0;
    if (place.requested_bytes || place.stack.index == 0) {
      constexpr int kNoLimit = 1 << 20;
      node = calls_.child(0, calls_.frame(one_line_place(snapshot_, place, kNoLimit)));
    } else {
      const auto frames = snapshot_.frames_of(place.stack);
      for (std::size_t i = std::min(frames.size(), kDeepestStack); i > 0; --i)
        node = calls_.child(node, name_of_frame(frames[i - 1]));
    }
    nodes_.emplace(key, node);
    return node;
  }

  // {"frames": [], "stacks": {"frame": [], "parent": []}, "passages": []}
  Json json() {
    std::ranges::sort(passages_);
    Json object = {{"frames", calls_.frames_json()}, {"stacks", calls_.nodes_json()}};
    object["passages"] = passages_;
    return object;
  }

 private:
  std::uint32_t name_of_frame(std::uint32_t frame) {
    const auto [found, is_new] = names_.try_emplace(frame);
    if (is_new) {
      const snapshot::Frame& there = snapshot_.frames[frame];
      const auto known = calls_.names();
      found->second = calls_.frame(without_terminal_control(words_for_frame(snapshot_, there)));
      // Frames may share a name; the first frame decides whether the name only passes calls on.
      if (found->second == known && is_passage(snapshot_, there)) passages_.push_back(found->second);
    }
    return found->second;
  }

  const snapshot::Snapshot& snapshot_;
  CallTree calls_;
  std::unordered_map<std::uint64_t, std::uint32_t> nodes_;
  std::unordered_map<std::uint32_t, std::uint32_t> names_;  // by frame
  std::vector<std::uint32_t> passages_;                     // names of what only passes a call on
};

// The places that held most at any moment, the most first.
std::vector<snapshot::PlaceIndex> leading_places(const std::vector<SnapshotLive::Moment>& moments,
                                                 std::size_t most) {
  std::unordered_map<std::uint32_t, std::int64_t> most_held;
  for (const SnapshotLive::Moment& moment : moments)
    for (const snapshot::PlaceShare& share : moment.places) {
      std::int64_t& held = most_held[share.place.index];
      held = std::max(held, share.bytes);
    }
  std::vector<std::pair<std::int64_t, std::uint32_t>> order;
  for (const auto& [place, held] : most_held) order.emplace_back(-held, place);
  std::ranges::sort(order);
  if (order.size() > most) order.resize(most);
  std::vector<snapshot::PlaceIndex> places;
  for (const auto& [held, place] : order) places.push_back({place});
  return places;
}

// [{"bytes", "blocks", "stack": [], "stack_bytes": [], "other_bytes"}], as of a recording's page.
Json live_json(const snapshot::DeviceAnalysis& device, const std::vector<SnapshotLive::Moment>& moments,
               std::size_t most, PlaceTree& tree) {
  std::unordered_map<std::uint32_t, std::uint32_t> nodes;
  for (const snapshot::PlaceIndex place : leading_places(moments, most))
    if (const auto node = tree.node_of(device.places[place])) nodes.emplace(place.index, *node);
  Json list = Json::array();
  for (const SnapshotLive::Moment& moment : moments) {
    Json stack = Json::array(), bytes = Json::array();
    std::int64_t rest = moment.bytes;
    for (const snapshot::PlaceShare& share : moment.places) {
      const auto node = nodes.find(share.place.index);
      if (node == nodes.end()) continue;
      stack.push_back(node->second);
      bytes.push_back(share.bytes);
      rest -= share.bytes;
    }
    list.push_back({{"bytes", moment.bytes},
                    {"blocks", moment.blocks},
                    {"stack", std::move(stack)},
                    {"stack_bytes", std::move(bytes)},
                    {"other_bytes", rest}});
  }
  return list;
}

// What the page shows beyond --json: sentences, what was live by place, and the segments' cells.
void add_to_device(Json& json, const SnapshotReport& report, const snapshot::DeviceAnalysis& device,
                   Json live) {
  const snapshot::Snapshot& snapshot = report.snapshot;
  json["leaks"]["words"] = words_for_leaks(device.leaks, duration_of_trace(device));
  std::vector<snapshot::AllocationPlace> guilty;
  for (const snapshot::PlaceGrowth& growth : device.leaks.places)
    if (growth.growth == device.leaks.growth) guilty.push_back(device.places[growth.place]);
  if (const std::string common = common_frame(snapshot, guilty); !common.empty())
    json["leaks"]["common"] = without_terminal_control(common);
  for (std::size_t i = 0; i < device.ooms.size(); ++i) {
    const snapshot::OomAutopsy& oom = device.ooms[i];
    for (std::size_t way = 0; way < oom.ways.size(); ++way)
      json["ooms"][i]["room"][way]["words"] = words_for_room(oom, oom.ways[way], snapshot.settings);
  }
  const auto segments = segments_shown(snapshot, device.device);
  for (std::size_t i = 0; i < segments.size(); ++i)
    json["segments_map"][i]["cells"] = cells_of(snapshot, *segments[i], kCellsOfSegment, '~');
  json["live"] = std::move(live);
}

// {"places": [a node, or null where the page is full], "places_bytes": [[] a point]}
void add_places_over_time(Json& timeline, const snapshot::DeviceAnalysis& device, PlaceTree& tree) {
  timeline["places"] = Json::array();
  for (const snapshot::PlaceIndex place : device.timeline.places) {
    const auto node = tree.node_of(device.places[place]);
    timeline["places"].push_back(node ? Json(*node) : Json());
  }
  timeline["places_bytes"] = device.timeline.place_bytes;
}

}  // namespace

Json snapshot_to_json(const SnapshotReport& report) {
  const SetPlace set_place = [&](Json& json, const snapshot::AllocationPlace& place) {
    if (place.requested_bytes)
      json["request_bytes"] = *place.requested_bytes;
    else
      json["frames"] = frames_json(report.snapshot, place.stack);
  };
  return Writer(report, set_place).document();
}

const std::vector<SnapshotLive::Moment>& SnapshotLive::of(std::int64_t device) const {
  static const std::vector<Moment> kNone;
  const auto found = moments_.find(device);
  return found == moments_.end() ? kNone : found->second;
}

snapshot::SnapshotOptions SnapshotLive::options() {
  snapshot::SnapshotOptions options;
  options.timeline_places = kPlacesOverTime;
  options.visit = [this](snapshot::DeviceAnalysis& device, const snapshot::SnapshotMoment&,
                         const snapshot::DeviceState& state) {
    if (moments_.size() >= kMostDevices && !moments_.contains(device.device)) return;
    moments_[device.device].push_back(live_of(state, device.places));
  };
  return options;
}

std::string snapshot_to_html(const SnapshotReport& report, const SnapshotLive& live) {
  const std::size_t shown = std::min(report.devices.size(), kMostDevices);
  std::vector<snapshot::DeviceAnalysis> first;
  if (report.devices.size() > shown)
    first.assign(report.devices.begin(), report.devices.begin() + static_cast<std::ptrdiff_t>(shown));
  const auto& devices = first.empty() ? report.devices : first;
  const SnapshotReport part{report.file, report.snapshot, devices};
  PlaceTree tree(report.snapshot);
  const SetPlace set_place = [&](Json& object, const snapshot::AllocationPlace& place) {
    if (const auto node = tree.node_of(place)) object["place"] = *node;
  };
  Json json = Writer(part, set_place).document();
  if (auto text = json["settings"].find("text"); text != json["settings"].end())
    *text = without_terminal_control(report.snapshot.settings.text.substr(0, kLongestText));
  if (report.devices.size() > shown) json["devices_left_out"] = report.devices.size() - shown;
  for (std::size_t i = 0; i < shown; ++i) {
    add_to_device(json["devices"][i], part, devices[i],
                  live_json(devices[i], live.of(devices[i].device), kMostPlaces / shown, tree));
    add_places_over_time(json["devices"][i]["timeline"], devices[i], tree);
  }
  return page_with_data(Page::snapshot, {{"snapshot", to_line(json)}, {"calls", to_line(tree.json())}});
}

}  // namespace headroom::report
