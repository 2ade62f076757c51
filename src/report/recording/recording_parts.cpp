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
#include "report/words.h"

namespace headroom::report {

using namespace attribution;

namespace {

Json node_json(const NodeMemory& node) {
  Json object = {{"name", node.name}, {"operation", node.operation}, {"provider", node.provider}};
  object["runs"] = node.runs;
  object["duration_ns"] = node.duration.count;
  set_if(object, "output_bytes", node.output);
  set_if(object, "activation_bytes", node.activations);
  set_if(object, "parameter_bytes", node.parameters);
  set_if(object, "arena_in_use_bytes", node.in_use);
  return object;
}

using namespace attribution;

constexpr std::size_t kNodesShown = 5;
constexpr int kShortestName = 10;
// An arena grows by pages and more; smaller allocations are not part of it.
constexpr Bytes kSmallestGrowth{4096};

// The program may run a session within a range of its own: then its name is not all of the path.
bool is_of_session(std::string_view path, std::string_view session) {
  const std::string_view own_name = session.substr(session.rfind('/') + 1);
  return path == session || path == own_name || path.ends_with(fmt::format("/{}", own_name));
}

constexpr std::int64_t kMuch = 1 << 20, kPartOfHeap = 100;
constexpr std::size_t kPlaces = 5, kOthers = 3, kMappedSharesInJson = 50;

struct ModuleShare {
  std::string name;  // empty where it is not known
  MappingShare share;
};

// By the module whose code requested the memory, as module_figures() does for the heap; the largest first.
std::vector<ModuleShare> module_shares(const RecordingReport& report,
                                       const std::vector<MappingShare>& stacks) {
  std::map<std::string, MappingShare> by_name;
  for (const MappingShare& stack : stacks) {
    MappingShare& share =
        by_name[responsible_module(report.info, report.stacks.frames(StackId{stack.index}))];
    add_wrapping(share.at_peak_bytes, stack.at_peak_bytes);
    add_wrapping(share.end_bytes, stack.end_bytes);
  }
  std::vector<std::string> names;
  std::vector<MappingShare> shares;
  for (const auto& [name, share] : by_name) {
    shares.push_back(share);
    shares.back().index = static_cast<std::uint32_t>(names.size());
    names.push_back(name);
  }
  sort_shares(shares);
  std::vector<ModuleShare> modules;
  for (const MappingShare& share : shares) modules.push_back({names[share.index], share});
  return modules;
}

const std::string& layer_path(const RecordingReport& report, const MappingShare& share) {
  return report.analysis.layers[share.index].path;
}

// The tables by layer, module and place. Those of one moment show what the shares have at the end.
class MappedTables {
 public:
  enum class Of { whole_recording, one_moment };

  MappedTables(ScreenLines& screen, const RecordingReport& report, std::int64_t whole, Of of)
      : screen_(screen), report_(report), whole_(whole), of_(of) {}

  void draw(const std::vector<MappingShare>& stacks, const std::vector<MappingShare>& layers) {
    // One row for everything outside of any layer shows nothing new, and neither does one module.
    if (layers.size() > 1 || (layers.size() == 1 && layers[0].index != 0))
      table(
          "layer", layers.size(), kOthers,
          [&](std::size_t i, int room) {
            const std::string& path = layer_path(report_, layers[i]);
            return fit_path_to_width(path.empty() ? "(outside of any layer)" : path, room);
          },
          [&](std::size_t i) { return layers[i]; });
    const std::vector<ModuleShare> modules = module_shares(report_, stacks);
    if (modules.size() > 1)
      table(
          "module", modules.size(), kOthers,
          [&](std::size_t i, int room) {
            return fit_to_width(modules[i].name.empty() ? "(unknown)" : modules[i].name, room);
          },
          [&](std::size_t i) { return modules[i].share; });
    table(
        "place", stacks.size(), kPlaces,
        [&](std::size_t i, int room) { return one_line_stack(report_, StackId{stacks[i].index}, room); },
        [&](std::size_t i) { return stacks[i]; });
  }

 private:
  // `name(i, room)`: of row i, in at most `room` columns.
  template <class Name, class Share>
  void table(std::string_view by, std::size_t rows, std::size_t most, Name name, Share share) {
    screen_.line(of_ == Of::one_moment
                     ? fmt::format("  by {}", by)
                     : fmt::format("{:>11}        {:>9}  by {}", "at its peak", "at end", by));
    const std::size_t shown = std::min(rows, most);
    for (std::size_t i = 0; i < shown; ++i)
      screen_.row(figures(share(i)), [&](int room) { return name(i, room); });
    screen_.and_more(rows, shown);
  }

  std::string figures(const MappingShare& share) const {
    if (of_ == Of::one_moment) return share_figures(share.end_bytes, whole_);
    return share_figures(share.at_peak_bytes, whole_) +
           fmt::format("{:>9}  ", format_bytes({share.end_bytes}));
  }

  ScreenLines& screen_;
  const RecordingReport& report_;
  std::int64_t whole_;
  Of of_;
};

// A row of JSON: what names the share, and its bytes.
Json share_json(const MappingShare& share) {
  return {{"at_peak_bytes", share.at_peak_bytes}, {"at_end_bytes", share.end_bytes}};
}
Json share_at_moment_json(const MappingShare& share) { return {{"bytes", share.end_bytes}}; }

void add_shares(Json& json, const RecordingReport& report, const std::vector<MappingShare>& stacks,
                const std::vector<MappingShare>& layers, Json (*bytes_of)(const MappingShare&)) {
  json["stacks"] = json_list(first_of(stacks, kMappedSharesInJson), [&](const MappingShare& stack) {
    Json object = bytes_of(stack);
    object["frames"] = frames_of(report, StackId{stack.index});
    return object;
  });
  json["layers"] = json_list(first_of(layers, kMappedSharesInJson), [&](const MappingShare& layer) {
    Json object = bytes_of(layer);
    object["layer_name"] = layer_path(report, layer);
    return object;
  });
  json["modules"] = json_list(module_shares(report, stacks), [&](const ModuleShare& module) {
    Json object = bytes_of(module.share);
    set_if(object, "module", module.name);
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

Json modules_json(const RecordingReport& report) {
  const auto modules = module_figures(report.info, report.stacks, report.analysis);
  return json_list(modules, [](const ModuleFigures& module) {
    Json object;
    set_if(object, "module", module.name);
    set(object, module.live);
    return object;
  });
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
    Json& nodes = object["nodes"] = json_list(session.nodes, node_json);
    const std::vector<Bytes> layers = layers_of_nodes(session, report.analysis);
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (layers[i] > Bytes{}) nodes[i]["layer_at_peak_bytes"] = layers[i].count;
    return object;
  });
}

Json threads_json(const RecordingReport& report) {
  Json threads = Json::array();
  if (!report.analysis.host_recorded)
    for (std::uint32_t i = 0; i < report.info.threads.size(); ++i)
      threads.push_back(thread_json(report.info, ThreadIndex{i}));
  for (const ThreadFigures& thread : report.analysis.threads) {
    if (!report.analysis.host_recorded || (thread.allocations == 0 && thread.releases == 0)) continue;
    Json object = thread_json(report.info, thread.thread);
    object["allocations"] = thread.allocations;
    object["deallocations"] = thread.releases;
    object["allocated_bytes"] = thread.allocated_bytes;
    set(object, thread.live);
    threads.push_back(std::move(object));
  }
  return threads;
}

bool has_arena(const SessionMemory& session) { return session.in_use && session.arena_held; }

bool has_arena(const recording::RecordingInfo& info, const RecordingAnalysis& analysis) {
  return std::ranges::any_of(session_memory(info, analysis),
                             [](const SessionMemory& session) { return has_arena(session); });
}

Bytes tensors_of(const NodeMemory& node) {
  return node.activations.value_or(Bytes{}) + node.output.value_or(Bytes{});
}

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

void add_nodes(ScreenLines& screen, const SessionMemory& session, const RecordingAnalysis& analysis) {
  const auto bytes_of = [](const NodeMemory& node) { return tensors_of(node).count; };
  std::vector<std::size_t> order = ranked(session.nodes, bytes_of, kNodesShown);
  if (order.empty()) return;
  const auto with_tensors =
      std::ranges::count_if(session.nodes, [&](const NodeMemory& node) { return bytes_of(node) > 0; });
  const std::vector<Bytes> layers = layers_of_nodes(session, analysis);
  screen.heading(fmt::format("Tensors of the nodes of {}, in one run", session.name));
  screen.line(fmt::format("  {:>10}  {:>10}  {:>10}  node", "inputs", "outputs",
                          has_arena(session) ? "arena grew" : "its layer"));
  const auto add = [&](std::size_t i, std::string_view after) {
    const NodeMemory& node = session.nodes[i];
    const std::string figures =
        fmt::format("  {:>10}  {:>10}  {:>10}  ", words_for(node.activations), words_for(node.output),
                    layers[i] >= kSmallestGrowth ? format_bytes(layers[i]) : "");
    screen.row(figures, [&](int room) {
      return fit_path_to_width(node.name, std::max(kShortestName, room - display_width(after))).append(after);
    });
  };
  constexpr std::string_view kFullest = "  ← arena peak";
  bool has_peak_node = false;
  for (const std::size_t i : order) {
    const bool is_peak = session.nodes[i].name == session.peak_node;
    has_peak_node |= is_peak;
    add(i, is_peak ? kFullest : "");
  }
  std::size_t shown = order.size();
  for (std::size_t i = 0; i < session.nodes.size() && !has_peak_node; ++i) {
    if (session.nodes[i].name != session.peak_node) continue;
    add(i, kFullest);
    shown += bytes_of(session.nodes[i]) > 0 ? 1 : 0;
    has_peak_node = true;
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
  MappedTables(screen, report, mapped.peak_bytes, MappedTables::Of::whole_recording)
      .draw(mapped.stacks, mapped.layers);
}

void add_mapped(ScreenLines& screen, const RecordingReport& report, const LiveRows& rows) {
  const MappedRows& mapped = rows.mapped;
  if (!is_much(mapped.bytes, rows.bytes.value)) return;
  screen.heading(
      fmt::format("Mapped by the program, not part of the heap: {}", format_bytes({mapped.bytes})));
  MappedTables(screen, report, mapped.bytes, MappedTables::Of::one_moment)
      .draw(mapped.by_stack, mapped.by_layer);
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
  add_shares(json, report, mapped.stacks, mapped.layers, share_json);
  return json;
}

Json mapped_json(const RecordingReport& report, const MappedRows& mapped) {
  Json json = {{"bytes", mapped.bytes}};
  add_shares(json, report, mapped.by_stack, mapped.by_layer, share_at_moment_json);
  return json;
}

}  // namespace headroom::report
