#include "report/recording/recording_html.h"

#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>

#include "attribution/peak_shares.h"
#include "report/page.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/words.h"

namespace headroom::report {

namespace {

using namespace attribution;

constexpr std::size_t kMostRows = 200;

// The memory of each row at a moment, by the number of the moment.
using HeldAt = std::function<const std::vector<std::int64_t>&(std::size_t)>;

// Figure i; 0 beyond the end.
std::int64_t figure_at(const std::vector<std::int64_t>& figures, std::size_t i) {
  return i < figures.size() ? figures[i] : 0;
}

// The rows that held most at any moment, the largest first; none that never held memory.
std::vector<std::size_t> leading_rows(std::size_t moments, const HeldAt& held_at, std::size_t count) {
  std::vector<std::int64_t> most;
  for (std::size_t m = 0; m < moments; ++m) {
    const std::vector<std::int64_t>& held = held_at(m);
    most.resize(std::max(most.size(), held.size()));
    for (std::size_t i = 0; i < held.size(); ++i) most[i] = std::max(most[i], held[i]);
  }
  return ranked(
      most, [](std::int64_t bytes) { return bytes; }, count);
}

Json live_share_json(const std::vector<LiveMoment>& moments, const HeldAt& held_at,
                     const std::function<std::string(std::size_t)>& name) {
  std::vector<std::size_t> rows = leading_rows(moments.size(), held_at, kMostRows);
  std::ranges::sort(rows);
  Json json = {{"name", Json::array()}, {"bytes", Json::array()}, {"other_bytes", Json::array()}};
  for (const std::size_t row : rows) json["name"].push_back(name(row));
  for (std::size_t m = 0; m < moments.size(); ++m) {
    Json bytes = Json::array();
    std::int64_t rest = moments[m].bytes;
    for (const std::size_t row : rows) {
      const std::int64_t held = std::max<std::int64_t>(0, figure_at(held_at(m), row));
      bytes.push_back(held);
      rest -= held;
    }
    json["bytes"].push_back(std::move(bytes));
    json["other_bytes"].push_back(std::max<std::int64_t>(0, rest));
  }
  return json;
}

Json live_modules_json(const RecordingReport& report, const std::vector<LiveMoment>& moments) {
  // Modules in the order in which stacks name them; most stacks are of few modules.
  std::map<std::string, std::size_t> number_of;
  std::vector<std::string> names;
  std::vector<std::size_t> module_of;  // [StackId]
  for (const LiveMoment& moment : moments)
    for (auto i = static_cast<std::uint32_t>(module_of.size()); i < moment.bytes_by_stack.size(); ++i) {
      const auto [found, is_new] = number_of.emplace(
          responsible_module(report.info, report.stacks.frames(StackId{i})), number_of.size());
      if (is_new) names.push_back(found->first);
      module_of.push_back(found->second);
    }
  std::vector<std::vector<std::int64_t>> sums;
  for (const LiveMoment& moment : moments) {
    std::vector<std::int64_t>& held = sums.emplace_back(names.size());
    for (std::size_t i = 0; i < moment.bytes_by_stack.size(); ++i)
      held[module_of[i]] += moment.bytes_by_stack[i];
  }
  return live_share_json(
      moments, [&](std::size_t m) -> const auto& { return sums[m]; },
      [&](std::size_t i) { return names[i].empty() ? "(unknown)" : names[i]; });
}

// {"module": {"name": [], "bytes": [[]]}, "thread": {…}, "size": {…}}: bytes[m][i] is the memory of row i at
// moment m. Each list has the 200 rows that held most at any moment, threads and sizes ascending;
// "other_bytes"[m] is the rest.
Json live_shares_json(const RecordingReport& report, const std::vector<LiveMoment>& moments) {
  return {{"module", live_modules_json(report, moments)},
          {"thread", live_share_json(
                         moments, [&](std::size_t m) -> const auto& { return moments[m].bytes_by_thread; },
                         [&](std::size_t i) { return words_for_thread(report.info, i); })},
          {"size", live_share_json(
                       moments, [&](std::size_t m) -> const auto& { return moments[m].bytes_by_class; },
                       words_for_size_class)}};
}

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
      std::ranges::reverse(found->second);
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

Json page_blocker_json(const RecordingReport& report, const Blocker& blocker) {
  Json places = json_list(blocker.places(), [&](const BlockerPlace& place) -> Json {
    return {{"bytes", place.bytes}, {"blocks", place.blocks}, {"frames", frames_of(report, place.stack)}};
  });
  return {{"address", fmt::format("{:#x}", blocker.address)},
          {"size_bytes", blocker.bytes},
          {"blocks", blocker.blocks},
          {"span_bytes", blocker.span_bytes},
          {"freed_if_gone_bytes", blocker.freed_if_gone},
          {"age_ns", blocker.age.count},
          {"places", std::move(places)}};
}

// Adds {KEY: [what names the row], KEY_bytes: [what it holds], REST: the rest of `whole`}, without the rows
// that hold nothing. `row_of(row)` gives name and bytes.
template <class Rows, class RowOf>
void add_held(Json& object, const std::string& key, const char* rest_key, std::int64_t whole,
              const Rows& rows, RowOf row_of) {
  Json names = Json::array(), bytes = Json::array();
  for (const auto& row : rows) {
    const auto [name, held] = row_of(row);
    if (held <= 0) continue;
    names.push_back(name);
    bytes.push_back(held);
    whole -= held;
  }
  object[key] = std::move(names);
  object[key + "_bytes"] = std::move(bytes);
  object[rest_key] = std::max<std::int64_t>(0, whole);
}

// [{"time_ns", …, "cell_bytes", "extents": [{"address", "bytes", "cells"}], "blocker"}]
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
      Json& blocker = object["blocker"] = page_blocker_json(report, *figures.blocker);
      if (around != nullptr) {
        blocker["extent"] = around - map.extents.data();
        blocker["offset_bytes"] = figures.blocker->address - around->address;
      }
    }
    list.push_back(std::move(object));
  }
  return list;
}

// Names of templates can have kilobytes, and a program that gives each step's range a new name has a layer
// for each step. So the page limits both.
constexpr std::size_t kLongestNameShown = 240, kMostLayersShown = 4000;

FrameNames shortened(FrameNames names) {
  return [names = std::move(names)](std::uint64_t address) {
    std::vector<std::string> frames = names(address);
    for (std::string& name : frames)
      if (name.size() > kLongestNameShown) name.replace(kLongestNameShown, std::string::npos, "…");
    return frames;
  };
}

// The JSON of --json. If there are very many layers, those with the lowest peaks are left out; without
// figures of memory, those with the shortest times.
Json recording_data(const RecordingReport& report) {
  Json json = recording_to_json(report);
  Json& layers = json["layers"];
  if (layers.size() <= kMostLayersShown) return json;
  const char* const key = report.analysis.host_recorded ? "peak_allocated_bytes" : "duration_ms";
  const auto need = [&](const Json& layer) { return layer[key].get<double>(); };
  std::stable_sort(layers.begin(), layers.end(),
                   [&](const Json& a, const Json& b) { return need(a) > need(b); });
  const std::size_t left_out = layers.size() - kMostLayersShown;
  layers.erase(layers.begin() + kMostLayersShown, layers.end());
  json["layers_left_out"] = left_out;
  return json;
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
    add_held(object, "stack", "other_bytes", moment.bytes, leaves, [&](const Leaf& leaf) {
      return std::pair(leaf.node, figure_at(moment.bytes_by_stack, leaf.stack));
    });
    add_held(object, "layer", "other_layers_bytes", moment.bytes, leading_layers,
             [&](std::size_t i) { return std::pair(layers[i], figure_at(moment.bytes_by_layer, i)); });
    list.push_back(std::move(object));
  }
  return {{"frames", tree.calls().frames_json()},
          {"stacks", tree.calls().nodes_json()},
          {"layers", layers.json()},
          {"shares", live_shares_json(report, moments)},
          {"moments", std::move(list)}};
}

std::string recording_to_html(const RecordingReport& report, const PageMoments& moments) {
  RecordingReport shown = report;
  shown.frame_names = shortened(report.frame_names);
  return page_with_data(Page::recording, {{"recording", to_line(recording_data(shown))},
                                          {"live", to_line(live_moments_json(shown, moments.live))},
                                          {"heap", to_line(heap_maps_json(shown, moments.heaps))}});
}

}  // namespace headroom::report
