#include "report/recording/recording_parts.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <ranges>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attribution/peak_shares.h"
#include "base/text.h"
#include "base/utf8.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/run/report_json.h"
#include "report/words.h"

namespace headroom::report {

using namespace attribution;

namespace {

constexpr std::size_t kNodesShown = 5;
constexpr int kShortestName = 10;
// An arena grows by pages and more; smaller allocations are not part of it.
constexpr Bytes kSmallestGrowth{4096};

// The program may run a session within a range of its own: then its name is not all of the path.
bool is_of_session(std::string_view path, std::string_view session) {
  const std::string_view own_name = session.substr(session.rfind('/') + 1);
  return path == session || path == own_name || path.ends_with(fmt::format("/{}", own_name));
}

// What the layer of each node held at the heap's peak, by itself and without what tracing needs.
std::vector<Bytes> layers_of_nodes(const SessionMemory& session, const RecordingAnalysis& analysis) {
  std::unordered_map<std::string_view, Bytes> held;
  for (const LayerFigures& layer : analysis.layers) {
    if (layer.source != recording::ScopeSource::node || !layer.parent) continue;
    const LayerFigures& run = analysis.layers[*layer.parent];
    if (run.source == recording::ScopeSource::run && run.parent &&
        is_of_session(analysis.layers[*run.parent].path, session.name))
      held[std::string_view(layer.path).substr(run.path.size() + 1)] +=
          Bytes{layer.self.peak_bytes - layer.tracing_peak_bytes};
  }
  std::vector<Bytes> layers;
  for (const NodeMemory& node : session.nodes) {
    const auto found = held.find(node.name);
    layers.push_back(found == held.end() ? Bytes{} : found->second);
  }
  return layers;
}

constexpr std::int64_t kMuch = 1 << 20, kPartOfHeap = 100;
constexpr std::size_t kPlaces = 5, kOthers = 3, kMappedSharesInJson = 50;

// The modules whose code requested the memory, as module_figures() has them for the heap; the largest first.
struct ModuleShares {
  std::vector<std::string> names;    // empty where it is not known
  std::vector<MappingShare> shares;  // with the indices of the names

  ModuleShares(const RecordingReport& report, const std::vector<MappingShare>& stacks) {
    std::map<std::string, MappingShare> by_name;
    for (const MappingShare& stack : stacks) {
      MappingShare& share =
          by_name[responsible_module(report.info, report.stacks.frames(StackId{stack.index}))];
      add_wrapping(share.at_peak_bytes, stack.at_peak_bytes);
      add_wrapping(share.end_bytes, stack.end_bytes);
    }
    for (const auto& [name, share] : by_name) {
      shares.push_back(share);
      shares.back().index = static_cast<std::uint32_t>(names.size());
      names.push_back(name);
    }
    sort_shares(shares);
  }
};

// The tables by layer, module and place. Those of one moment show what the shares have at the end.
void add_mapped_tables(ScreenLines& screen, const RecordingReport& report, std::int64_t whole, bool at_moment,
                       const std::vector<MappingShare>& stacks, const std::vector<MappingShare>& layers) {
  // `name(index, room)`: of a share, in at most `room` columns.
  const auto table = [&](std::string_view by, const std::vector<MappingShare>& shares, std::size_t most,
                         auto name) {
    screen.line(at_moment ? fmt::format("  by {}", by)
                          : fmt::format("{:>11}        {:>9}  by {}", "at its peak", "at end", by));
    for (const MappingShare& share : first_of(shares, most)) {
      std::string figures = share_figures(at_moment ? share.end_bytes : share.at_peak_bytes, whole);
      if (!at_moment) figures += fmt::format("{:>9}  ", format_bytes({share.end_bytes}));
      screen.row(figures, [&](int room) { return name(share.index, room); });
    }
    screen.and_more(shares.size(), most);
  };
  // One row for everything outside of any layer shows nothing new, and neither does one module.
  if (layers.size() > 1 || (layers.size() == 1 && layers[0].index != 0))
    table("layer", layers, kOthers, [&](std::uint32_t layer, int room) {
      return fit_path_to_width(name_of_layer(report, layer), room);
    });
  const ModuleShares modules(report, stacks);
  if (modules.shares.size() > 1)
    table("module", modules.shares, kOthers, [&](std::uint32_t module, int room) {
      return fit_to_width(modules.names[module].empty() ? "(unknown)" : modules.names[module], room);
    });
  table("place", stacks, kPlaces,
        [&](std::uint32_t stack, int room) { return one_line_stack(report, StackId{stack}, room); });
}

// Rows of what names a share, and its bytes.
void add_shares(Json& json, const RecordingReport& report, const std::vector<MappingShare>& stacks,
                const std::vector<MappingShare>& layers, Json (*bytes_of)(const MappingShare&)) {
  json["stacks"] = json_list(first_of(stacks, kMappedSharesInJson), [&](const MappingShare& stack) {
    Json object = bytes_of(stack);
    object["frames"] = frames_of(report, StackId{stack.index});
    return object;
  });
  json["layers"] = json_list(first_of(layers, kMappedSharesInJson), [&](const MappingShare& layer) {
    Json object = bytes_of(layer);
    object["layer_name"] = path_of_layer(report, layer.index);
    return object;
  });
  const ModuleShares modules(report, stacks);
  json["modules"] = json_list(modules.shares, [&](const MappingShare& share) {
    Json object = bytes_of(share);
    set_if(object, "module", modules.names[share.index]);
    return object;
  });
}

bool is_much(std::int64_t mapped, std::int64_t heap) {
  return mapped > 0 && (mapped >= kMuch || mapped >= heap / kPartOfHeap);
}

}  // namespace

void set(Json& object, const std::string& key, const attribution::Figure& figure) {
  object[key] = figure.value;
  set_if(object, key + "_standard_error", figure.standard_error);
  set_if(object, key + "_at_most", figure.at_most);
  if (figure.at_least) object[key + "_at_least"] = figure.value;
}

void set(Json& object, const LiveFigures& live) {
  object["at_peak_bytes"] = live.peak_bytes;
  object["at_peak_blocks"] = live.peak_blocks;
  object["at_end_bytes"] = live.end_bytes;
  object["at_end_blocks"] = live.end_blocks;
  set_if(object, "at_peak_bytes_standard_error", live.peak_standard_error());
  set_if(object, "at_end_bytes_standard_error", live.end_standard_error());
}

Json thread_json(const recording::RecordingInfo& info, ThreadIndex thread) {
  Json object;
  object["index"] = thread.index;
  if (thread.index >= info.threads.size()) return object;
  const recording::Thread& known = info.threads[thread.index];
  if (known.tid != 0) object["tid"] = known.tid;
  set_if(object, "name", known.name);
  return object;
}

Json sessions_json(const RecordingReport& report) {
  return json_list(session_memory(report.info, report.analysis), [&](const SessionMemory& session) {
    Json object = {{"name", session.name}};
    if (session.loads > 1) {
      object["load"] = session.load;
      object["loads"] = session.loads;
    }
    if (report.analysis.host_recorded) {
      object["loaded_bytes"] = session.loaded.count;
      object["run_bytes"] = session.run.count;
    }
    if (session.tracing > Bytes{}) object["tracing_bytes"] = session.tracing.count;
    set_if(object, "weights_bytes", session.weights);
    set_if(object, "tensors_bytes", session.tensors);
    set_if(object, "arena_in_use_bytes", session.in_use);
    set_if(object, "arena_held_bytes", session.arena_held);
    object["peak_node"] = session.peak_node;
    if (report.analysis.host_recorded)
      object["at_peak"] = json_list(shares_of(session), [](const MemoryShare& share) -> Json {
        return {{"kind", name_of(share.kind)}, {"bytes", share.bytes.count}};
      });
    Json& nodes = object["nodes"] =
        json_list(session.nodes, [](const NodeMemory& node) { return to_json(node); });
    const std::vector<Bytes> layers = layers_of_nodes(session, report.analysis);
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (layers[i] > Bytes{}) nodes[i]["layer_at_peak_bytes"] = layers[i].count;
    return object;
  });
}

bool has_arena(const SessionMemory& session) { return session.in_use && session.arena_held; }

bool has_arena(const recording::RecordingInfo& info, const RecordingAnalysis& analysis) {
  return std::ranges::any_of(session_memory(info, analysis),
                             [](const SessionMemory& session) { return has_arena(session); });
}

void add_nodes(ScreenLines& screen, const SessionMemory& session, const RecordingAnalysis& analysis) {
  // What one run of the node reads and writes; no parameters.
  const auto bytes_of = [](const NodeMemory& node) {
    return (node.activations.value_or(Bytes{}) + node.output.value_or(Bytes{})).count;
  };
  std::vector<std::size_t> order = ranked(session.nodes, bytes_of, kNodesShown);
  if (order.empty()) return;
  const auto with_tensors =
      std::ranges::count_if(session.nodes, [&](const NodeMemory& node) { return bytes_of(node) > 0; });
  const std::vector<Bytes> layers = layers_of_nodes(session, analysis);
  screen.heading(fmt::format("Tensors of the nodes of {}, in one run", session.name));
  screen.line(fmt::format("  {:>10}  {:>10}  {:>10}  node", "inputs", "outputs",
                          has_arena(session) ? "arena grew" : "its layer"));
  const auto is_peak = [&](std::size_t i) { return session.nodes[i].name == session.peak_node; };
  const auto peak = std::ranges::find(session.nodes, session.peak_node, &NodeMemory::name);
  std::size_t shown = order.size();
  if (peak != session.nodes.end() && std::ranges::none_of(order, is_peak)) {
    order.push_back(static_cast<std::size_t>(peak - session.nodes.begin()));
    shown += bytes_of(*peak) > 0 ? 1 : 0;
  }
  for (const std::size_t i : order) {
    const NodeMemory& node = session.nodes[i];
    const std::string_view after = is_peak(i) ? "  ← arena peak" : "";
    const std::string figures =
        fmt::format("  {:>10}  {:>10}  {:>10}  ", words_for(node.activations), words_for(node.output),
                    layers[i] >= kSmallestGrowth ? format_bytes(layers[i]) : "");
    screen.row(figures, [&](int room) {
      return fit_path_to_width(node.name, std::max(kShortestName, room - display_width(after))).append(after);
    });
  }
  screen.and_more(static_cast<std::size_t>(with_tensors), shown);
}

bool has_much_mapped(const RecordingAnalysis& analysis) {
  return is_much(analysis.mapped.peak_bytes, analysis.peak_bytes.value);
}

void add_mapped(ScreenLines& screen, const RecordingReport& report) {
  if (!has_much_mapped(report.analysis)) return;
  const MappedFigures& mapped = report.analysis.mapped;
  screen.heading("Mapped by the program, not part of the heap");
  screen.indented(
      fmt::format("At most {}, at {}; {} at the end. These are whole pages, touched or not, "
                  "without those that malloc maps for the heap.",
                  format_bytes({mapped.peak_bytes}), format_duration(mapped.peak_time),
                  format_bytes({mapped.end_bytes})));
  if (mapped.reserved_peak_bytes > 0)
    screen.indented(
        fmt::format("At most {} of addresses were also reserved without access, which uses no memory.",
                    format_bytes({mapped.reserved_peak_bytes})));
  add_mapped_tables(screen, report, mapped.peak_bytes, false, mapped.stacks, mapped.layers);
}

void add_mapped(ScreenLines& screen, const RecordingReport& report, const LiveRows& rows) {
  const MappedRows& mapped = rows.mapped;
  if (!is_much(mapped.bytes, rows.bytes.value)) return;
  screen.heading(
      fmt::format("Mapped by the program, not part of the heap: {}", format_bytes({mapped.bytes})));
  add_mapped_tables(screen, report, mapped.bytes, true, mapped.by_stack, mapped.by_layer);
}

Json mapped_json(const RecordingReport& report) {
  const MappedFigures& mapped = report.analysis.mapped;
  Json json = {{"maps", mapped.maps},
               {"unmaps", mapped.unmaps},
               {"total_bytes", mapped.mapped_bytes},
               {"peak_bytes", mapped.peak_bytes},
               {"peak_time_seconds", mapped.peak_time.seconds()},
               {"at_heap_peak_bytes", mapped.bytes_at_heap_peak},
               {"at_end_bytes", mapped.end_bytes},
               {"reserved_peak_bytes", mapped.reserved_peak_bytes},
               {"reserved_at_end_bytes", mapped.reserved_end_bytes}};
  add_shares(json, report, mapped.stacks, mapped.layers, [](const MappingShare& share) -> Json {
    return {{"at_peak_bytes", share.at_peak_bytes}, {"at_end_bytes", share.end_bytes}};
  });
  return json;
}

Json mapped_json(const RecordingReport& report, const MappedRows& mapped) {
  Json json = {{"bytes", mapped.bytes}};
  add_shares(json, report, mapped.by_stack, mapped.by_layer, [](const MappingShare& share) -> Json {
    return {{"bytes", share.end_bytes}};
  });
  return json;
}

}  // namespace headroom::report
