#include "attribution/peak_shares.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "attribution/live_map.h"

namespace headroom::attribution {

namespace {

bool passes_allocations_on(std::string_view module) {
  constexpr std::array<std::string_view, 12> kPassersOn{
      "libc.so",    "libc-", "libc++",      "libstdc++",   "libgcc_s",    "ld-",
      "libpthread", "ld.so", "libjemalloc", "libtcmalloc", "libmimalloc", "libheadroom_trace"};
  return std::ranges::any_of(kPassersOn, [&](std::string_view name) { return module.starts_with(name); });
}

// The file name of the module that contains the call before this return address; empty if there is none.
std::string_view module_at(const recording::RecordingInfo& info, std::uint64_t return_address) {
  const std::uint64_t call = return_address - 1;
  // If several modules were loaded at this place in turn, the last one counts.
  for (auto module = info.modules.rbegin(); module != info.modules.rend(); ++module)
    if (call >= module->start && call < module->end)
      return std::string_view(module->path).substr(module->path.rfind('/') + 1);
  return {};
}

}  // namespace

std::string responsible_module(const recording::RecordingInfo& info, std::span<const std::uint64_t> frames) {
  std::string_view outermost;
  for (const std::uint64_t frame : frames) {
    const std::string_view module = module_at(info, frame);
    if (module.empty()) continue;
    if (!passes_allocations_on(module)) return std::string(module);
    outermost = module;
  }
  return std::string(outermost);
}

std::optional<std::uint64_t> responsible_frame(const recording::RecordingInfo& info,
                                               std::span<const std::uint64_t> frames) {
  for (const std::uint64_t frame : frames)
    if (const std::string_view module = module_at(info, frame);
        !module.empty() && !passes_allocations_on(module))
      return frame;
  return std::nullopt;
}

std::span<const std::uint64_t> frames_within_module(const recording::RecordingInfo& info,
                                                    std::span<const std::uint64_t> frames) {
  std::string_view within;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::string_view module = module_at(info, frames[i]);
    if (module.empty() || passes_allocations_on(module)) continue;
    if (within.empty()) within = module;
    if (module != within) return frames.first(i);
  }
  return frames;
}

std::vector<PeakShare> peak_shares(const recording::RecordingInfo& info, const recording::StackTable& stacks,
                                   const RecordingAnalysis& analysis) {
  std::vector<PeakShare> shares;
  std::int64_t tracing = 0;
  for (std::size_t i = 1; i < analysis.layers.size(); ++i) {
    const LayerFigures& layer = analysis.layers[i];
    tracing += layer.tracing_peak_bytes;
    const std::int64_t bytes = layer.self.peak_bytes - layer.tracing_peak_bytes;
    if (bytes != 0) shares.push_back({{layer.path, bytes, layer.self.peak_variance}, ShareKind::layer});
  }
  if (tracing != 0) shares.push_back({{"", tracing}, ShareKind::tracing});
  std::map<std::string, PeakShare> by_module;
  for (const StackFigures& stack : analysis.stacks)
    if (stack.outside_peak_bytes != 0) {
      PeakShare& share = by_module[responsible_module(info, stacks.frames(stack.stack))];
      share.bytes += stack.outside_peak_bytes;
      share.variance += stack.outside_peak_variance;
    }
  for (auto& [module, share] : by_module) {
    share.kind = module.empty() ? ShareKind::unnamed : ShareKind::module;
    share.name = module;
    shares.push_back(share);
  }
  std::ranges::stable_sort(shares, std::greater<>(), &PeakShare::bytes);
  return shares;
}

std::vector<ModuleFigures> module_figures(const recording::RecordingInfo& info,
                                          const recording::StackTable& stacks,
                                          const RecordingAnalysis& analysis) {
  std::map<std::string, LiveFigures> by_name;
  for (const StackFigures& stack : analysis.stacks) {
    if (stack.live.peak_bytes == 0 && stack.live.end_bytes == 0) continue;
    by_name[responsible_module(info, stacks.frames(stack.stack))].add(stack.live);
  }
  std::vector<ModuleFigures> modules;
  for (const auto& [name, live] : by_name) modules.push_back({name, live});
  std::ranges::stable_sort(modules, [](const ModuleFigures& a, const ModuleFigures& b) {
    return std::pair(a.live.peak_bytes, a.live.end_bytes) > std::pair(b.live.peak_bytes, b.live.end_bytes);
  });
  return modules;
}

namespace {

using recording::ScopeSource;

enum Use : std::size_t { weights, activations, gradients, optimizer_state, other };
constexpr std::array<const char*, 5> kNames = {"weights", "activations", "gradients", "optimizer_state",
                                               "other"};

// The use of a layer's own allocations. A layer without a use (an NVTX range in a module) has the use of the
// layer around it. A module that runs again in the backward pass allocates activations.
Use use_of(const LayerFigures& layer, Use around) {
  switch (layer.source) {
    case ScopeSource::weights:
      return weights;
    case ScopeSource::module:
      return activations;
    case ScopeSource::phase:
      return layer.path.ends_with("optimizer.step") ? optimizer_state : gradients;
    default:
      return around;
  }
}

}  // namespace

std::vector<PeakPart> peak_uses(const RecordingAnalysis& analysis) {
  std::array<PeakPart, kNames.size()> sums;
  std::vector<Use> uses;  // a parent comes before its children
  bool has_modules = false;
  for (const LayerFigures& layer : analysis.layers) {
    has_modules |= layer.source == ScopeSource::module;
    uses.push_back(use_of(layer, layer.parent ? uses[*layer.parent] : other));
    PeakPart& sum = sums[uses.back()];
    add_wrapping(sum.bytes, layer.self.peak_bytes);
    sum.variance += layer.self.peak_variance;
  }
  std::vector<PeakPart> found;
  for (std::size_t i = 0; has_modules && i < sums.size(); ++i) {
    if (sums[i].bytes == 0) continue;
    sums[i].name = kNames[i];
    found.push_back(sums[i]);
  }
  return found;
}

namespace {

void add_node_runs(const recording::RuntimeProfileData& profile, SessionMemory& session) {
  for (const recording::NodeInfo& node : profile.nodes)
    session.nodes.push_back({node.name, node.operation, node.provider, 0, Nanoseconds(), node.output,
                             node.activations, node.parameters, std::nullopt});
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
  // The arena may grow after its peak in use, and keeps its largest size.
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
    return held.loaded.count != 0 || held.run.count != 0 || held.tracing.count != 0;
  };
  std::vector<SessionMemory> sessions;
  for (std::size_t i = 0; i < info.profiles.size(); ++i) {
    const recording::RuntimeProfile& profile = info.profiles[i];
    if (profile.data.nodes.empty()) continue;
    SessionMemory session{analysis.sessions[i], recording::path_of(info, profile.session)};
    const std::vector<std::size_t>& same = loads[session.name];
    const bool is_first_of_none = i == same.front() && std::ranges::none_of(same, was_live);
    if (!was_live(i) && !is_first_of_none) continue;
    session.load = std::ranges::find(same, i) - same.begin() + 1;
    session.loads = static_cast<std::int64_t>(same.size());
    add_node_runs(profile.data, session);
    sessions.push_back(std::move(session));
  }
  return sessions;
}

std::vector<MemoryShare> shares_of(const SessionMemory& session) {
  std::vector<MemoryShare> shares;
  const auto set_apart = [](Bytes bytes, Bytes& from) {
    bytes = std::clamp(bytes, Bytes{}, from);
    from = from - bytes;
    return bytes;
  };
  const auto take = [&](MemoryKind kind, Bytes bytes, Bytes& from) {
    bytes = set_apart(bytes, from);
    if (bytes > Bytes{}) shares.push_back({kind, "", bytes});
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
    // A layer outside all sessions counts like a module.
    const MemoryKind kind = share.kind == ShareKind::tracing   ? MemoryKind::tracing
                            : share.kind == ShareKind::unnamed ? MemoryKind::unnamed
                                                               : MemoryKind::module;
    add(kind, share.name, Bytes{share.bytes});
  }
  std::ranges::stable_sort(memory.shares, std::greater<>(), &MemoryShare::bytes);
  return memory;
}

}  // namespace headroom::attribution
