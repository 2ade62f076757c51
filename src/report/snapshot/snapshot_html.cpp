#include "report/snapshot/snapshot_views.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/terminal.h"
#include "report/page.h"
#include "report/recording/stack_text.h"
#include "report/snapshot/snapshot_words.h"

namespace headroom::report {
namespace {

using namespace attribution;

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
  Json json = snapshot_document(part, [&](Json& object, const snapshot::AllocationPlace& place) {
    if (const auto node = tree.node_of(place)) object["place"] = *node;
  });
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
