#include "attribution/session_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "attribution/peak_shares.h"

namespace headroom::attribution {
namespace {

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
  std::map<std::string, std::vector<std::size_t>> loads;  // profiles by the session's path
  for (std::size_t i = 0; i < info.profiles.size(); ++i)
    if (!info.profiles[i].data.nodes.empty())
      loads[recording::path_of(info, info.profiles[i].session)].push_back(i);
  const auto was_live = [&](std::size_t profile) {
    const SessionAtPeak& held = analysis.sessions[profile];
    return held.loaded_bytes != 0 || held.run_bytes != 0 || held.tracing_bytes != 0;
  };
  std::vector<SessionMemory> sessions;
  for (std::size_t i = 0; i < info.profiles.size(); ++i) {
    const recording::RuntimeProfile& profile = info.profiles[i];
    if (profile.data.nodes.empty()) continue;
    SessionMemory session;
    session.name = recording::path_of(info, profile.session);
    const std::vector<std::size_t>& same = loads[session.name];
    const bool is_first_of_none = i == same.front() && std::none_of(same.begin(), same.end(), was_live);
    if (!was_live(i) && !is_first_of_none) continue;
    session.load = std::find(same.begin(), same.end(), i) - same.begin() + 1;
    session.loads = static_cast<std::int64_t>(same.size());
    const SessionAtPeak& held = analysis.sessions[i];
    session.loaded = Bytes{held.loaded_bytes};
    session.run = Bytes{held.run_bytes};
    session.tracing = Bytes{held.tracing_bytes};
    session.later = Bytes{held.later_bytes};
    if (held.arena_is_told)
      session.arena = {Bytes{held.arena_loaded_bytes}, Bytes{held.arena_bytes},
                       Bytes{held.arena_later_bytes}};
    add_node_runs(profile.data, session);
    sessions.push_back(std::move(session));
  }
  return sessions;
}

std::vector<MemoryShare> shares_of(const SessionMemory& session) {
  std::vector<MemoryShare> shares;
  const auto take = [&](MemoryKind kind, Bytes bytes, Bytes& from) {
    bytes = std::clamp(bytes, Bytes{}, from);
    from = from - bytes;
    if (bytes > Bytes{}) shares.push_back({kind, "", bytes});
  };
  const auto set_apart = [](Bytes bytes, Bytes& from) {
    bytes = std::clamp(bytes, Bytes{}, from);
    from = from - bytes;
    return bytes;
  };
  Bytes loaded = session.loaded, run = session.run;
  const bool has_arena = session.in_use && session.arena_held;
  Bytes arena;
  if (has_arena && session.arena)
    arena = set_apart(session.arena->loaded, loaded) + set_apart(session.arena->run, run);
  take(MemoryKind::weights, session.weights.value_or(Bytes{}), loaded);
  take(MemoryKind::graph, loaded, loaded);
  if (!has_arena) {
    take(MemoryKind::run, run, run);
    return shares;
  }
  const Bytes tensors = session.tensors.value_or(*session.in_use);
  const auto take_profiled_arena = [&](Bytes& from) {
    take(MemoryKind::tensors, tensors, from);
    take(MemoryKind::arena_rounding, *session.in_use - tensors, from);
    take(MemoryKind::arena_unused, *session.arena_held - *session.in_use, from);
  };
  if (session.arena) {
    Bytes arena_later = set_apart(session.arena->later, run);
    take_profiled_arena(arena);
    arena_later += arena;  // after the last node
    take(MemoryKind::arena_later, arena_later, arena_later);
    take(MemoryKind::workspace, run, run);
  } else {
    Bytes later = set_apart(session.later, run);
    take_profiled_arena(run);
    take(MemoryKind::workspace, run, run);
    take(MemoryKind::run_later, later, later);
  }
  return shares;
}

LayerMemory layer_memory(const recording::RecordingInfo& info, const recording::StackTable& stacks,
                         const RecordingAnalysis& analysis) {
  LayerMemory memory;
  memory.peak = Bytes{analysis.peak_bytes.value};
  const auto add = [&](MemoryKind kind, const std::string& name, Bytes bytes) {
    for (MemoryShare& known : memory.shares)
      if (known.kind == kind && known.name == name) {
        known.bytes += bytes;
        return;
      }
    memory.shares.push_back({kind, name, bytes});
  };
  const std::vector<SessionMemory> sessions = session_memory(info, analysis);
  Bytes most;
  for (const SessionMemory& session : sessions) {
    for (const MemoryShare& share : shares_of(session)) add(share.kind, share.name, share.bytes);
    if (session.loaded + session.run < most) continue;
    most = session.loaded + session.run;
    memory.peak_node = session.peak_node;
    memory.nodes = session.nodes;
  }
  std::set<std::string_view> of_sessions;
  for (const LayerFigures& layer : analysis.layers)
    if (layer.of_session) of_sessions.insert(layer.path);
  for (const PeakShare& share : peak_shares(info, stacks, analysis)) {
    if (share.kind == ShareKind::layer && of_sessions.contains(share.name)) continue;
    // A layer that is no session's is told like a module: by its name.
    const MemoryKind kind = share.kind == ShareKind::tracing   ? MemoryKind::tracing
                            : share.kind == ShareKind::unnamed ? MemoryKind::unnamed
                                                               : MemoryKind::module;
    add(kind, share.name, Bytes{share.bytes});
  }
  std::stable_sort(memory.shares.begin(), memory.shares.end(),
                   [](const MemoryShare& a, const MemoryShare& b) { return a.bytes > b.bytes; });
  return memory;
}

}  // namespace headroom::attribution
