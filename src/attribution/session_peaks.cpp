#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "attribution/later_passes.h"
#include "attribution/layer_tree.h"
#include "attribution/live_map.h"
#include "attribution/peak_shares.h"
#include "attribution/sampled_peak.h"

namespace headroom::attribution {

namespace {

struct Load {
  std::size_t profile;     // index of RecordingInfo::profiles
  std::int64_t begin;      // ns
  std::int64_t last_node;  // end of the profile's last node
  std::int64_t later_run =
      std::numeric_limits<std::int64_t>::max();  // start of the first run after the profiled ones
};

// The sessions of one name, in the order of their loads.
struct Loaded {
  std::vector<Load> loads;
  std::vector<std::int64_t> load_entries;  // when a thread began to load one

  // The last session that began before this time.
  const Load& at(std::int64_t time) const {
    const auto after = std::ranges::upper_bound(loads, time, {}, &Load::begin);
    return after == loads.begin() ? *after : *std::prev(after);
  }
  void run_begins(std::int64_t time) {
    for (Load& load : loads)
      if (time > load.last_node) load.later_run = std::min(load.later_run, time);
  }
};

std::vector<Loaded> sessions_by_name(const recording::RecordingInfo& info, const SessionLayers& layers) {
  std::vector<Loaded> names(layers.names());
  for (std::size_t i = 0; i < info.profiles.size(); ++i) {
    const std::int64_t start = info.profiles[i].start.count;
    std::int64_t last = start;
    for (const recording::NodeRun& run : info.profiles[i].data.runs)
      last = std::max(last, start + run.start.count + run.duration.count);
    names[layers.name_of_profile(i)].loads.push_back({i, start, last});
  }
  for (Loaded& name : names) std::ranges::stable_sort(name.loads, {}, &Load::begin);
  return names;
}

// A session begins with its load, and its profile starts a little later. If a session was loaded after the
// heap's peak, the pass did not see its load, and the last load belongs to the session before it.
void find_begins(Loaded& name) {
  std::int64_t start_before = -1;
  for (Load& load : name.loads) {
    const std::int64_t start = load.begin;
    const auto after = std::ranges::upper_bound(name.load_entries, start);
    if (after != name.load_entries.begin() && *std::prev(after) > start_before)
      load.begin = *std::prev(after);
    start_before = start;
  }
}

void add(SessionAtPeak& session, const SessionLayer& layer, std::int64_t bytes) {
  add_wrapping((layer.is_run ? session.run : session.loaded).count, bytes);
}

// Reads up to the peak and divides what is live then among the sessions. Separates later runs from profiled
// ones, and the arena's chunks from other memory.
void divide_by_time(recording::Recording& recording, RecordingAnalysis& analysis,
                    const SessionLayers& session_layers, std::vector<Loaded>& names) {
  const ArenaStacks arena = find_arena_stacks(recording, session_layers);
  LayerTree layers(recording);
  LiveMap live;
  std::unordered_map<std::uint32_t, LayerIndex> before;  // the layer of each thread
  recording.for_each_event([&](const MemoryEvent& event) {
    if (event.time > analysis.peak_time) return;
    if (event.kind == MemoryEventKind::enter_scope) {
      const LayerIndex to = layers.of(event.scope);
      const auto layer = session_layers.of(to);
      const auto from = session_layers.of(std::exchange(before[event.thread.index], to));
      if (layer && layer->is_whole && !layer->is_run)
        names[layer->name].load_entries.push_back(event.time.count);
      if (layer && layer->is_run && !(from && from->is_run && from->name == layer->name))
        names[layer->name].run_begins(event.time.count);
      return;
    }
    live.apply(event, layers);
  });
  for (Loaded& name : names) {
    std::ranges::sort(name.load_entries);
    find_begins(name);
  }
  // As in the analysis, half B of the samples measures the peak, limited to what is possible.
  const SmallAllocations estimated = sampled_live(live, SampleHalf::b);
  const SmallAllocations most =
      estimated.bytes == 0 ? kNoBound : small_allocations_until(recording, {&analysis.peak_time, 1}).front();
  const BoundedSamples bounded(estimated, most);
  live.for_each([&](const LiveBlock& block) {
    const auto layer = session_layers.of(block.layer);
    if (!layer) return;
    const Loaded& name = names[layer->name];
    const Load& load = name.at(block.time_ns);
    SessionAtPeak& session = analysis.sessions[load.profile];
    std::int64_t bytes = block.bytes_in(SampleHalf::b);
    if (block.weight != 1) bytes = bounded.bytes(bytes);
    if (name.loads.size() > 1) add(session, *layer, bytes);
    if (arena.is_told[layer->name] && !session.arena) session.arena.emplace();
    const bool is_later = layer->is_run && block.time_ns >= load.later_run;
    if (is_later) add_wrapping(session.later.count, bytes);
    if (!session.arena || !arena.contains(StackId{block.stack})) return;
    SessionAtPeak::ArenaChunks& chunks = *session.arena;
    add_wrapping((!layer->is_run ? chunks.loaded : is_later ? chunks.later : chunks.run).count, bytes);
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
    if (names[layer->name].loads.size() > 1) continue;
    SessionAtPeak& session = analysis.sessions[names[layer->name].loads.front().profile];
    add(session, *layer, analysis.layers[i].self.peak_bytes - analysis.layers[i].tracing_peak_bytes);
    session.tracing.count = tracing[layer->name];
  }
  divide_by_time(recording, analysis, session_layers, names);

  // The profiles are part of the runs. Profile memory that the tracer made the runtime release is known by
  // layer only. It belongs to the session with the most memory, because the others were over.
  for (std::size_t name = 0; name < names.size(); ++name) {
    const std::vector<Load>& loads = names[name].loads;
    if (loads.size() < 2) continue;
    std::size_t most = loads.front().profile;
    for (const Load& load : loads) {
      const SessionAtPeak& session = analysis.sessions[load.profile];
      add_wrapping(tracing[name], -session.tracing.count);
      if (session.run.count > analysis.sessions[most].run.count) most = load.profile;
    }
    if (tracing[name] > 0) add_wrapping(analysis.sessions[most].tracing.count, tracing[name]);
    for (const Load& load : loads) {
      SessionAtPeak& session = analysis.sessions[load.profile];
      session.tracing.count =
          std::clamp<std::int64_t>(session.tracing.count, 0, std::max<std::int64_t>(0, session.run.count));
      add_wrapping(session.run.count, -session.tracing.count);
    }
  }
}

namespace {

// The arena allocates multiples of this.
constexpr std::uint64_t kArenaUnit = 256;
// The profile and its start time have a resolution of 1 µs; this allows for much more.
constexpr std::int64_t kClockError = 1'000'000;  // ns
// An arena allocates rarely. A place that allocates more often than this, in total or within the clock's
// error, is not an arena, and is not examined further.
constexpr std::size_t kMostSteps = 1 << 16, kMostAtOnce = 256;

// The arena's size at a moment, from the profile.
struct ArenaPoint {
  std::int64_t time = 0;  // ns
  std::int64_t held = 0;  // bytes
};

// The first and last point and each change, by time.
std::vector<ArenaPoint> points_of(const recording::RuntimeProfile& profile) {
  std::vector<ArenaPoint> all, points;
  for (const recording::NodeRun& run : profile.data.runs)
    if (run.arena_held)
      all.push_back({profile.start.count + run.start.count + run.duration.count, run.arena_held->count});
  std::ranges::stable_sort(all, {}, &ArenaPoint::time);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i == 0 || i + 1 == all.size() || all[i].held != all[i - 1].held || all[i].held != all[i + 1].held)
      points.push_back(all[i]);
  return points;
}

// Live bytes that one place allocated for the sessions of one name.
class PlaceAccount {
 public:
  void change(std::int64_t time, std::int64_t bytes) {
    const std::int64_t before = steps_.empty() ? 0 : steps_.back().held;
    steps_.push_back({time, before + bytes});
  }
  bool is_too_often() const { return steps_.size() > kMostSteps; }
  // All values around this time; empty if there are too many.
  std::vector<std::int64_t> about(std::int64_t time) const {
    auto step = std::ranges::upper_bound(steps_, time - kClockError, {}, &ArenaPoint::time);
    std::vector<std::int64_t> sums{step == steps_.begin() ? 0 : std::prev(step)->held};
    for (; step != steps_.end() && step->time <= time + kClockError; ++step) {
      if (sums.size() == kMostAtOnce) return {};
      sums.push_back(step->held);
    }
    return sums;
  }
  // Whether it equals the arena's size minus `rest` at all these moments.
  bool explains(const std::vector<ArenaPoint>& points, std::int64_t rest) const {
    return std::ranges::all_of(points, [&](const ArenaPoint& point) {
      const std::vector<std::int64_t> sums = about(point.time);
      return std::ranges::find(sums, point.held - rest) != sums.end();
    });
  }
  bool is_the_arena(const std::vector<ArenaPoint>& points) const {
    const bool grows = std::ranges::any_of(
        points, [&](const ArenaPoint& point) { return point.held > points.front().held; });
    for (const std::int64_t last : about(points.back().time)) {
      const std::int64_t rest = points.back().held - last;
      if (last > 0 && rest >= 0 && (rest == 0 || grows) && explains(points, rest)) return true;
    }
    return false;
  }

 private:
  std::vector<ArenaPoint> steps_;
};

// The accounts of places, up to a time, by the number of a session's name and the place's address.
using PlaceAccounts = std::map<std::pair<std::uint32_t, std::uint64_t>, PlaceAccount>;
PlaceAccounts account_places(recording::Recording& recording, const SessionLayers& sessions,
                             std::int64_t end) {
  struct Block {
    PlaceAccount* account;
    std::int64_t size;
  };
  LayerTree tree(recording);
  PlaceAccounts accounts;                    // entries never move
  std::unordered_set<std::uint64_t> others;  // places that are not an arena's
  std::unordered_map<std::uint64_t, Block> live;
  std::vector<std::optional<std::uint64_t>> places;  // by stack; 0: in no known module
  const auto place_of = [&](StackId stack) {
    if (stack.index >= places.size()) places.resize(stack.index + 1);
    std::optional<std::uint64_t>& place = places[stack.index];
    if (!place) place = responsible_frame(recording.info(), recording.stacks().frames(stack)).value_or(0);
    return *place;
  };
  bool over = false;
  recording.for_each_event([&](const MemoryEvent& event) {
    over = over || event.time.count > end;
    if (over) return;
    if (event.kind == MemoryEventKind::release) {
      const auto found = live.find(event.address);
      if (found == live.end()) return;
      found->second.account->change(event.time.count, -found->second.size);
      live.erase(found);
      return;
    }
    if (event.kind != MemoryEventKind::allocate || event.size > kLargestBlock) return;
    const auto layer = sessions.of(tree.of(event.scope));
    if (!layer) return;
    const std::uint64_t place = place_of(event.stack);
    if (place == 0 || others.contains(place)) return;
    PlaceAccount& account = accounts[{layer->name, place}];
    if (event.size % kArenaUnit != 0 || account.is_too_often()) {
      others.insert(place);
      return;
    }
    const auto size = static_cast<std::int64_t>(event.size);
    account.change(event.time.count, size);
    live[event.address] = {&account, size};
  });
  std::erase_if(accounts, [&](const auto& entry) { return others.contains(entry.first.second); });
  return accounts;
}

}  // namespace

ArenaStacks find_arena_stacks(recording::Recording& recording, const SessionLayers& sessions) {
  ArenaStacks result;
  result.is_told.resize(sessions.names());
  const recording::RecordingInfo& info = recording.info();
  std::vector<std::vector<ArenaPoint>> points;  // of each profile
  std::int64_t end = 0;
  for (const recording::RuntimeProfile& profile : info.profiles) {
    points.push_back(points_of(profile));
    if (!points.back().empty()) end = std::max(end, points.back().back().time + kClockError);
  }
  if (end == 0) return result;
  const PlaceAccounts accounts = account_places(recording, sessions, end);

  std::unordered_set<std::uint64_t> places;
  for (const auto& [key, account] : accounts)
    for (std::size_t i = 0; i < points.size() && !places.contains(key.second); ++i)
      if (!points[i].empty() && sessions.name_of_profile(i) == key.first && account.is_the_arena(points[i]))
        places.insert(key.second);
  // A place that is the arena's for one session is so for all sessions of the same library.
  for (const auto& [key, account] : accounts)
    if (places.contains(key.second)) result.is_told[key.first] = true;
  if (places.empty()) return result;
  result.is_arena.resize(recording.stacks().size());
  for (std::uint32_t i = 0; i < result.is_arena.size(); ++i) {
    const auto place = responsible_frame(info, recording.stacks().frames(StackId{i}));
    result.is_arena[i] = place && places.contains(*place);
  }
  return result;
}

}  // namespace headroom::attribution
