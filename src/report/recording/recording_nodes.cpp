#include "report/recording/recording_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/display_width.h"
#include "report/recording/ranking.h"
#include "report/recording/recording_words.h"
#include "report/words.h"

namespace headroom::report {
namespace {

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

}  // namespace

bool has_arena(const SessionMemory& session) { return session.in_use && session.arena_held; }

bool has_arena(const recording::RecordingInfo& info, const RecordingAnalysis& analysis) {
  const std::vector<SessionMemory> sessions = session_memory(info, analysis);
  return std::any_of(sessions.begin(), sessions.end(),
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
  const auto with_tensors = std::count_if(session.nodes.begin(), session.nodes.end(),
                                          [&](const NodeMemory& node) { return bytes_of(node) > 0; });
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

}  // namespace headroom::report
