#include "report/recording/recording_html_live.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "report/recording/call_tree.h"
#include "report/recording/live_shares.h"
#include "report/recording/stack_text.h"

namespace headroom::report {
namespace {

using namespace attribution;

// The others are one figure a moment.
constexpr std::size_t kMostStacks = 4000, kMostLayers = 2000;

// The call tree of the stacks that were added.
class StackTree {
 public:
  explicit StackTree(const RecordingReport& report) : report_(report) {}

  // The node of the stack's innermost function.
  std::uint32_t add(StackId stack) {
    const auto addresses = report_.stacks.frames(stack);
    std::uint32_t node = 0;
    if (addresses.empty()) return calls_.child(0, calls_.frame("(no stack was taken)"));
    for (auto address = addresses.rbegin(); address != addresses.rend(); ++address)
      for (const std::uint32_t frame : frames_at(*address)) node = calls_.child(node, frame);
    return node;
  }
  CallTree& calls() { return calls_; }

 private:
  // Outermost first.
  const std::vector<std::uint32_t>& frames_at(std::uint64_t address) {
    const auto [found, is_new] = at_address_.try_emplace(address);
    if (is_new) {
      for (std::string& name : report_.frame_names(address))
        found->second.push_back(calls_.frame(std::move(name)));
      std::reverse(found->second.begin(), found->second.end());
    }
    return found->second;
  }

  const RecordingReport& report_;
  CallTree calls_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> at_address_;
};

// These layers and those around them, numbered anew.
class LayersShown {
 public:
  LayersShown(const std::vector<LayerFigures>& layers, const std::vector<std::size_t>& chosen)
      : number_of_(layers.size()) {
    std::vector<bool> shown(layers.size());
    for (const std::size_t layer : chosen)
      for (std::size_t up = layer < layers.size() ? layer : 0; up != 0 && !shown[up];
           up = layers[up].parent.value_or(0))
        shown[up] = true;
    for (std::size_t i = 1; i < layers.size(); ++i) {
      if (!shown[i]) continue;
      const std::size_t parent = layers[i].parent.value_or(0);
      const std::string& around = layers[parent].path;
      number_of_[i] = names_.size();
      names_.push_back(around.empty() ? layers[i].path : layers[i].path.substr(around.size() + 1));
      parents_.push_back(number_of_[parent]);  // parents come first
    }
  }
  std::size_t operator[](std::size_t layer) const {
    return layer < number_of_.size() ? number_of_[layer] : 0;
  }
  Json json() { return {{"name", std::move(names_)}, {"parent", std::move(parents_)}}; }

 private:
  std::vector<std::size_t> number_of_;
  Json names_ = Json::array({"all"}), parents_ = Json::array({0});
};

// "A": the cell is free; "/": it is live throughout; another letter: it is partly live.
char letter_of(std::uint64_t live, std::uint64_t cell) {
  static constexpr std::string_view kLevels =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (live == 0) return kLevels.front();
  if (live >= cell) return kLevels.back();
  return kLevels[1 + static_cast<std::size_t>(61 * static_cast<double>(live) / static_cast<double>(cell))];
}

Json blocker_json(const RecordingReport& report, const Blocker& blocker) {
  Json places = Json::array();
  for (const BlockerPlace& place : blocker.places())
    places.push_back(
        {{"bytes", place.bytes}, {"blocks", place.blocks}, {"frames", frames_of(report, place.stack)}});
  return {{"address", fmt::format("{:#x}", blocker.address)},
          {"size_bytes", blocker.bytes},
          {"blocks", blocker.blocks},
          {"span_bytes", blocker.span_bytes},
          {"freed_if_gone_bytes", blocker.freed_if_gone},
          {"age_ns", blocker.age.count},
          {"places", std::move(places)}};
}

}  // namespace

Json live_moments_json(const RecordingReport& report, const std::vector<LiveMoment>& moments) {
  StackTree tree(report);
  struct Leaf {
    std::size_t stack;
    std::uint32_t node;
  };
  std::vector<Leaf> leaves;
  const auto stacks_held = [&](std::size_t m) -> const auto& { return moments[m].bytes_by_stack; };
  for (const std::size_t stack : leading_rows(moments.size(), stacks_held, kMostStacks)) {
    if (tree.calls().is_full()) break;
    leaves.push_back({stack, tree.add(StackId{static_cast<std::uint32_t>(stack)})});
  }
  const std::vector<std::size_t> leading_layers = leading_rows(
      moments.size(), [&](std::size_t m) -> const auto& { return moments[m].bytes_by_layer; }, kMostLayers);
  LayersShown layers(report.analysis.layers, leading_layers);

  Json list = Json::array();
  for (const LiveMoment& moment : moments) {
    Json object = {{"time_ns", moment.time.count}, {"bytes", moment.bytes}, {"blocks", moment.blocks}};
    if (moment.until) object["until_ns"] = moment.until->count;
    Json nodes = Json::array(), bytes = Json::array();
    std::int64_t rest = moment.bytes;
    for (const Leaf& leaf : leaves) {
      const std::int64_t held = figure_at(moment.bytes_by_stack, leaf.stack);
      if (held <= 0) continue;
      nodes.push_back(leaf.node);
      bytes.push_back(held);
      rest -= held;
    }
    object["stack"] = std::move(nodes);
    object["stack_bytes"] = std::move(bytes);
    object["other_bytes"] = std::max<std::int64_t>(0, rest);
    Json layer = Json::array(), layer_bytes = Json::array();
    rest = moment.bytes;
    for (const std::size_t i : leading_layers) {
      const std::int64_t held = figure_at(moment.bytes_by_layer, i);
      if (held <= 0) continue;
      layer.push_back(layers[i]);
      layer_bytes.push_back(held);
      rest -= held;
    }
    object["layer"] = std::move(layer);
    object["layer_bytes"] = std::move(layer_bytes);
    object["other_layers_bytes"] = std::max<std::int64_t>(0, rest);
    list.push_back(std::move(object));
  }
  return {{"frames", tree.calls().frames_json()},
          {"stacks", tree.calls().nodes_json()},
          {"layers", layers.json()},
          {"shares", live_shares_json(report, moments)},
          {"moments", std::move(list)}};
}

Json heap_maps_json(const RecordingReport& report, const std::vector<HeapMap>& maps) {
  Json list = Json::array();
  for (const HeapMap& map : maps) {
    const FragmentationMoment& figures = map.figures;
    Json object = {{"time_ns", figures.time.count},        {"live_bytes", figures.live_bytes},
                   {"chunk_bytes", figures.chunk_bytes},   {"extent_bytes", figures.extent_bytes},
                   {"free_bytes", figures.free_bytes},     {"largest_free_bytes", figures.largest_free_bytes},
                   {"extent_count", figures.extents},      {"holes", figures.holes},
                   {"internal_ratio", figures.internal()}, {"external_ratio", figures.external()},
                   {"cell_bytes", map.cell_bytes},         {"extents", Json::array()}};
    const HeapExtent* around = nullptr;
    for (const HeapExtent& extent : map.extents) {
      std::string cells;
      for (std::size_t i = 0; i < extent.live_bytes.size(); ++i)
        cells += letter_of(extent.live_bytes[i], std::min(map.cell_bytes, extent.bytes - i * map.cell_bytes));
      object["extents"].push_back({{"address", fmt::format("{:#x}", extent.address)},
                                   {"bytes", extent.bytes},
                                   {"cells", std::move(cells)}});
      if (figures.blocker && figures.blocker->address >= extent.address &&
          figures.blocker->address - extent.address < extent.bytes)
        around = &extent;
    }
    if (figures.blocker) {
      Json& blocker = object["blocker"] = blocker_json(report, *figures.blocker);
      if (around != nullptr) {
        blocker["extent"] = around - map.extents.data();
        blocker["offset_bytes"] = figures.blocker->address - around->address;
      }
    }
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace headroom::report
