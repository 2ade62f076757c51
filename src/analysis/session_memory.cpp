#include "analysis/session_memory.h"

#include <algorithm>

namespace headroom::analysis {
namespace {

// Live at the heap's peak in the layer of this path, with the layers inside it.
Bytes at_peak(const RecordingAnalysis& analysis, const std::string& path) {
  for (const LayerFigures& layer : analysis.layers)
    if (layer.path == path) return {layer.live.peak_bytes};
  return {};
}

void add_node_runs(const recording::RuntimeProfileData& profile, SessionMemory& session) {
  for (const recording::NodeInfo& node : profile.nodes)
    session.nodes.push_back({node.name,
                             node.operation,
                             node.provider,
                             0,
                             {},
                             node.output,
                             node.activations,
                             node.parameters,
                             {}});
  for (const recording::NodeRun& run : profile.runs) {
    NodeMemory& node = session.nodes[run.node];
    ++node.runs;
    node.duration += run.duration;
    if (!run.in_use) continue;
    node.in_use = std::max(node.in_use.value_or(Bytes{}), *run.in_use);
    if (session.in_use && *run.in_use <= *session.in_use) continue;
    session.in_use = run.in_use;
    session.tensors = run.requested_in_use;
    session.arena_held = run.arena_held;
    session.peak_node = node.name;
  }
  // The arena grows on: what it held last is what it keeps.
  for (const recording::NodeRun& run : profile.runs)
    if (run.arena_held) session.arena_held = std::max(session.arena_held.value_or(Bytes{}), *run.arena_held);
  for (const NodeMemory& node : session.nodes)
    if (node.parameters) session.weights = session.weights.value_or(Bytes{}) + *node.parameters;
}

}  // namespace

std::vector<SessionMemory> session_memory(const recording::RecordingInfo& info,
                                          const RecordingAnalysis& analysis) {
  std::vector<SessionMemory> sessions;
  for (const recording::RuntimeProfile& profile : info.profiles) {
    if (profile.data.nodes.empty()) continue;
    SessionMemory session;
    session.name = recording::path_of(info, profile.session);
    session.loaded = at_peak(analysis, session.name + "/load");
    session.run = at_peak(analysis, session.name + "/run");
    add_node_runs(profile.data, session);
    sessions.push_back(std::move(session));
  }
  return sessions;
}

}  // namespace headroom::analysis
