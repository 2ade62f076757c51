#include "attribution/session_peaks.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attribution/arena_chunks.h"
#include "attribution/layer_ledger.h"
#include "attribution/session_layers.h"
#include "attribution/small_allocations.h"

namespace headroom::attribution {
namespace {

// The sessions of one name, in the order in which they were loaded.
struct Loaded {
  std::vector<std::size_t> profiles;       // indices of RecordingInfo::profiles
  std::vector<std::int64_t> begins;        // ns, of each
  std::vector<std::int64_t> load_entries;  // when a thread began to load one
  std::vector<std::int64_t> last_nodes;    // when the last node of its profile ended, of each
  // When the first run after the profiled ones began, of each.
  std::vector<std::int64_t> later_runs;

  // The session that was the last to begin before this time: its place in these vectors.
  std::size_t at(std::int64_t time) const {
    const auto after = std::upper_bound(begins.begin(), begins.end(), time) - begins.begin();
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after, 1) - 1);
  }
  void run_begins(std::int64_t time) {
    for (std::size_t i = 0; i < profiles.size(); ++i)
      if (time > last_nodes[i]) later_runs[i] = std::min(later_runs[i], time);
  }
};

std::vector<Loaded> sessions_by_name(const recording::RecordingInfo& info, const SessionLayers& layers) {
  std::vector<Loaded> names(layers.names());
  for (std::size_t i = 0; i < info.profiles.size(); ++i)
    names[layers.name_of_profile(i)].profiles.push_back(i);
  for (Loaded& name : names)
    std::stable_sort(name.profiles.begin(), name.profiles.end(), [&](std::size_t a, std::size_t b) {
      return info.profiles[a].start < info.profiles[b].start;
    });
  for (Loaded& name : names) {
    for (const std::size_t i : name.profiles) {
      const recording::RuntimeProfile& profile = info.profiles[i];
      std::int64_t last = profile.start.count;
      for (const recording::NodeRun& run : profile.data.runs)
        last = std::max(last, profile.start.count + run.start.count + run.duration.count);
      name.last_nodes.push_back(last);
    }
    name.later_runs.assign(name.profiles.size(), std::numeric_limits<std::int64_t>::max());
  }
  return names;
}

// A session begins with its loading; the runtime's profile a little later. Of one that was loaded after the
// heap's peak the loading was not seen: what was before is the loading of the one before it.
void find_begins(const recording::RecordingInfo& info, Loaded& name) {
  std::int64_t start_before = -1;
  for (const std::size_t profile : name.profiles) {
    const std::int64_t start = info.profiles[profile].start.count;
    const auto after = std::upper_bound(name.load_entries.begin(), name.load_entries.end(), start);
    const bool seen = after != name.load_entries.begin() && *std::prev(after) > start_before;
    name.begins.push_back(seen ? *std::prev(after) : start);
    start_before = start;
  }
}

void add(SessionAtPeak& session, const SessionLayer& layer, std::int64_t bytes) {
  add_wrapping(layer.is_run ? session.run_bytes : session.loaded_bytes, bytes);
}

// Reads on until the peak, and shares what is live then among the sessions; of their runs tells apart what
// the profile covers and what the arena took.
void tell_apart_by_time(recording::Recording& recording, RecordingAnalysis& analysis,
                        const SessionLayers& session_layers, std::vector<Loaded>& names) {
  const ArenaStacks arena = find_arena_stacks(recording, session_layers);
  LayerLedger layers(recording);
  LiveMap live;
  std::unordered_map<std::uint32_t, LayerIndex> before;  // the layer of each thread
  recording.for_each_event([&](const MemoryEvent& event) {
    if (event.time > analysis.peak_time) return;
    if (event.kind == MemoryEventKind::enter_scope) {
      const LayerIndex to = layers.layer_of(event.scope);
      const auto layer = session_layers.of(to);
      const auto from = session_layers.of(std::exchange(before[event.thread.index], to));
      if (layer && layer->is_whole && !layer->is_run)
        names[layer->name].load_entries.push_back(event.time.count);
      if (layer && layer->is_run && !(from && from->is_run && from->name == layer->name))
        names[layer->name].run_begins(event.time.count);
      return;
    }
    LiveBlock block, replaced;
    if (event.kind == MemoryEventKind::release)
      live.take(event.address, block);
    else if (is_allocation(event) && make_block(event, layers.layer_of(event.scope), event.time.count, block))
      live.insert(block, replaced);
  });
  for (Loaded& name : names) {
    std::sort(name.load_entries.begin(), name.load_entries.end());
    find_begins(recording.info(), name);
  }
  // As the analysis tells the peak: half B of the samples, as much of it as there can be.
  SmallAllocations estimated;
  live.for_each([&](const LiveBlock& block) {
    if (block.weight == 1) return;
    add_wrapping(estimated.bytes, block.bytes_in(SampleHalf::b));
    add_wrapping(estimated.blocks, block.blocks_in(SampleHalf::b));
  });
  const SmallAllocations most =
      estimated.bytes == 0 ? kNoBound : small_allocations_until(recording, {&analysis.peak_time, 1}).front();
  const BoundedSamples bounded(estimated, most);
  live.for_each([&](const LiveBlock& block) {
    const auto layer = session_layers.of(block.layer);
    if (!layer) return;
    const Loaded& name = names[layer->name];
    const std::size_t which = name.at(block.time_ns);
    SessionAtPeak& session = analysis.sessions[name.profiles[which]];
    std::int64_t bytes = block.bytes_in(SampleHalf::b);
    if (block.weight != 1) bytes = bounded.bytes(bytes);
    if (name.profiles.size() > 1) add(session, *layer, bytes);
    session.arena_is_told = arena.is_told[layer->name];
    const bool is_arena = arena.contains(StackId{block.stack});
    if (!layer->is_run) {
      if (is_arena) add_wrapping(session.arena_loaded_bytes, bytes);
      return;
    }
    const bool is_later = block.time_ns >= name.later_runs[which];
    if (is_later) add_wrapping(session.later_bytes, bytes);
    if (is_arena) add_wrapping(is_later ? session.arena_later_bytes : session.arena_bytes, bytes);
  });
}

}  // namespace

void find_session_peaks(recording::Recording& recording, RecordingAnalysis& analysis) {
  const recording::RecordingInfo& info = recording.info();
  if (info.profiles.empty()) return;
  const SessionLayers session_layers(LayerTree(recording), info);
  std::vector<Loaded> names = sessions_by_name(info, session_layers);
  std::vector<std::int64_t> tracing(names.size());  // of all sessions of the name
  std::vector<bool> is_read(names.size());
  for (std::size_t i = 0; i < info.profiles.size(); ++i)
    if (!info.profiles[i].data.nodes.empty()) is_read[session_layers.name_of_profile(i)] = true;
  for (LayerIndex i = 0; i < analysis.layers.size(); ++i) {
    const auto layer = session_layers.of(i);
    if (!layer || !is_read[layer->name]) continue;
    analysis.layers[i].of_session = true;
    add_wrapping(tracing[layer->name], analysis.layers[i].tracing_peak_bytes);
    if (names[layer->name].profiles.size() > 1) continue;
    SessionAtPeak& session = analysis.sessions[names[layer->name].profiles.front()];
    add(session, *layer, analysis.layers[i].self.peak_bytes - analysis.layers[i].tracing_peak_bytes);
    session.tracing_bytes = tracing[layer->name];
  }
  tell_apart_by_time(recording, analysis, session_layers, names);

  // The profiles lie in the runs. What the tracer had released of them is known by layer only: that is the
  // session's that held most, for the others were over.
  for (std::size_t name = 0; name < names.size(); ++name) {
    if (names[name].profiles.size() < 2) continue;
    std::size_t most = names[name].profiles.front();
    for (const std::size_t profile : names[name].profiles) {
      add_wrapping(tracing[name], -analysis.sessions[profile].tracing_bytes);
      if (analysis.sessions[profile].run_bytes > analysis.sessions[most].run_bytes) most = profile;
    }
    if (tracing[name] > 0) add_wrapping(analysis.sessions[most].tracing_bytes, tracing[name]);
    for (const std::size_t profile : names[name].profiles) {
      SessionAtPeak& session = analysis.sessions[profile];
      session.tracing_bytes =
          std::clamp<std::int64_t>(session.tracing_bytes, 0, std::max<std::int64_t>(0, session.run_bytes));
      add_wrapping(session.run_bytes, -session.tracing_bytes);
    }
  }
}

}  // namespace headroom::attribution
