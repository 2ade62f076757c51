#include "attribution/later_passes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "attribution/layer_tree.h"
#include "attribution/peak_shares.h"

namespace headroom::attribution {
namespace {

// A profile may lack some nodes (its own limit, a run that was cut short).
constexpr double kRecordedNodes = 0.9;

// A runtime keeps about 3 KiB for each run of a node, depending on names and shapes.
constexpr double kMostOfARecord = 6 << 10;

// The profiled runs of a session.
struct Window {
  std::size_t profile = 0;        // index of RecordingInfo::profiles
  std::uint32_t session = 0;      // the number of its name (SessionLayers)
  std::int64_t from = 0, to = 0;  // ns
  std::size_t node_runs = 0;
};

// By the sessions' names, then by time.
std::vector<Window> profiled_windows(const recording::RecordingInfo& info, const SessionLayers& layers) {
  // The last node's record is written after the node.
  constexpr std::int64_t kAfterTheLastNode = 1'000'000;
  std::vector<Window> windows;
  for (std::size_t i = 0; i < info.profiles.size(); ++i) {
    const recording::RuntimeProfile& profile = info.profiles[i];
    const auto& runs = profile.data.runs;
    if (runs.empty()) continue;
    Window window{i, layers.name_of_profile(i), std::numeric_limits<std::int64_t>::max(), 0, runs.size()};
    for (const recording::NodeRun& run : runs) {
      const std::int64_t start = profile.start.count + run.start.count;
      window.from = std::min(window.from, start);
      window.to = std::max(window.to, start + run.duration.count + kAfterTheLastNode);
    }
    windows.push_back(window);
  }
  std::ranges::sort(windows, [](const Window& a, const Window& b) {
    return a.session != b.session ? a.session < b.session : a.from < b.from;
  });
  return windows;
}

// Blocks that one path in the runtime allocated in profiled runs, between the nodes.
struct Kept {
  std::int64_t blocks = 0;
  // By layer: a session may run in several ranges of the program.
  std::map<LayerIndex, std::int64_t> bytes, bytes_at_peak;
};

bool passes_through(std::span<const std::uint64_t> frames, std::uint64_t call) {
  return std::ranges::find(frames, call) != frames.end();
}

// Numbers the parts of stacks that are in the runtime. A program may run a session from several places and
// threads; the runtime's part is the same in all of them.
class PathsInRuntime {
 public:
  explicit PathsInRuntime(const recording::Recording& recording) : recording_(recording) {}

  std::uint32_t of(StackId stack) {
    if (stack.index >= by_stack_.size()) by_stack_.resize(stack.index + 1);
    std::optional<std::uint32_t>& path = by_stack_[stack.index];
    if (path) return *path;
    const auto frames = frames_within_module(recording_.info(), recording_.stacks().frames(stack));
    const auto [known, is_new] = numbers_.emplace(std::vector(frames.begin(), frames.end()),
                                                  static_cast<std::uint32_t>(paths_.size()));
    if (is_new) paths_.push_back(&known->first);
    path = known->second;
    return *path;
  }
  // Innermost first.
  std::span<const std::uint64_t> frames(std::uint32_t path) const { return *paths_[path]; }

 private:
  const recording::Recording& recording_;
  std::vector<std::optional<std::uint32_t>> by_stack_;
  std::map<std::vector<std::uint64_t>, std::uint32_t> numbers_;
  std::vector<const std::vector<std::uint64_t>*> paths_;
};

// The innermost call that all these paths share.
std::optional<std::uint64_t> common_call(const PathsInRuntime& paths,
                                         const std::vector<std::uint32_t>& which) {
  std::vector<std::uint64_t> common;  // outermost first
  for (std::size_t i = 0; i < which.size(); ++i) {
    const auto frames = paths.frames(which[i]);
    std::vector<std::uint64_t> reversed(frames.rbegin(), frames.rend());
    if (i == 0) common = reversed;
    const auto [end, ignored] = std::mismatch(common.begin(), common.end(), reversed.begin(), reversed.end());
    common.erase(end, common.end());
  }
  if (common.empty()) return std::nullopt;
  return common.back();
}

// The findings in one window.
struct Findings {
  std::unordered_map<std::uint32_t, Kept> kept;  // by path
  std::unordered_set<std::uint32_t> node_paths;

  // The paths by which the runtime allocates for its profile.
  std::vector<std::uint32_t> profile_paths(const PathsInRuntime& paths, std::size_t node_runs) const {
    std::vector<std::uint32_t> of_every_node;
    const auto needed = static_cast<std::int64_t>(kRecordedNodes * static_cast<double>(node_runs));
    for (const auto& [path, blocks] : kept)
      if (blocks.blocks >= std::max<std::int64_t>(1, needed)) of_every_node.push_back(path);
    const auto call = common_call(paths, of_every_node);
    std::vector<std::uint32_t> found;
    if (!call) return found;
    // Other allocations below that call (the list of records) belong to the profile too, unless nodes also
    // allocate below it: then the call is not the profile's own.
    const bool shared = std::ranges::any_of(
        node_paths, [&](std::uint32_t path) { return passes_through(paths.frames(path), *call); });
    for (const auto& [path, blocks] : kept) {
      const bool recorded = std::ranges::find(of_every_node, path) != of_every_node.end();
      if (recorded || (!shared && passes_through(paths.frames(path), *call))) found.push_back(path);
    }
    return found;
  }
};

// The findings of each window.
std::vector<Findings> search_windows(recording::Recording& recording, PathsInRuntime& paths,
                                     const SessionLayers& sessions, const std::vector<Window>& windows,
                                     std::int64_t peak_time) {
  struct Block {
    std::size_t window;
    std::uint32_t path;
    LayerIndex layer;
    std::int64_t size;
  };
  std::vector<Findings> findings(windows.size());
  LayerTree layers(recording);
  std::unordered_map<std::uint64_t, Block> live;
  // The window of this session that contains the time; windows.size() if there is none.
  const auto window_at = [&](std::uint32_t session, std::int64_t time) {
    const auto after = std::upper_bound(
        windows.begin(), windows.end(), std::pair(session, time),
        [](const auto& at, const Window& window) { return at < std::pair(window.session, window.from); });
    if (after == windows.begin()) return windows.size();
    const auto found = std::prev(after);
    if (found->session != session || time > found->to) return windows.size();
    return static_cast<std::size_t>(found - windows.begin());
  };
  const auto visit = [&](const MemoryEvent& event) {
    if (event.kind == MemoryEventKind::release) {
      const auto found = live.find(event.address);
      if (found == live.end()) return;
      const Block& block = found->second;
      // Releasing the session also releases its profile; ignore that.
      if (event.time.count <= std::max(peak_time, windows[block.window].to)) {
        Kept& kept = findings[block.window].kept[block.path];
        --kept.blocks;
        kept.bytes[block.layer] -= block.size;
      }
      live.erase(found);
      return;
    }
    if (event.kind != MemoryEventKind::allocate) return;
    const LayerIndex index = layers.of(event.scope);
    const auto layer = sessions.of(index);
    if (!layer || !layer->is_run) return;
    const std::size_t window = window_at(layer->name, event.time.count);
    if (window == windows.size()) return;
    const std::uint32_t path = paths.of(event.stack);
    if (!layer->is_whole) {
      findings[window].node_paths.insert(path);
      return;
    }
    const auto size = static_cast<std::int64_t>(event.size);
    live[event.address] = {window, path, index, size};
    Kept& kept = findings[window].kept[path];
    ++kept.blocks;
    kept.bytes[index] += size;
  };
  const auto take_peak = [&] {
    for (Findings& of_window : findings)
      for (auto& [path, kept] : of_window.kept) kept.bytes_at_peak = kept.bytes;
  };

  std::int64_t end = peak_time;
  for (const Window& window : windows) end = std::max(end, window.to);
  bool before_peak = true, over = false;
  recording.for_each_event([&](const MemoryEvent& event) {
    over = over || event.time.count > end;
    if (over) return;
    if (before_peak && event.time.count > peak_time) {
      before_peak = false;
      take_peak();
    }
    visit(event);
  });
  if (before_peak) take_peak();
  return findings;
}

}  // namespace

TracersOwnMemory find_profile_memory(recording::Recording& recording, RecordingAnalysis& analysis) {
  TracersOwnMemory tracers_own;
  analysis.sessions.resize(recording.info().profiles.size());
  const SessionLayers sessions(LayerTree(recording), recording.info());
  const std::vector<Window> windows = profiled_windows(recording.info(), sessions);
  if (!analysis.full)
    for (const Window& window : windows)
      tracers_own.profiles.push_back(
          {window.from, window.to, kMostOfARecord * static_cast<double>(window.node_runs)});
  if (windows.empty() || !analysis.full) return tracers_own;
  tracers_own.stacks.resize(recording.stacks().size());
  PathsInRuntime paths(recording);
  const std::vector<Findings> findings =
      search_windows(recording, paths, sessions, windows, analysis.peak_time.count);
  std::map<LayerIndex, std::int64_t> by_layer;
  std::unordered_set<std::uint32_t> profile_paths;
  for (std::size_t i = 0; i < windows.size(); ++i)
    for (const std::uint32_t path : findings[i].profile_paths(paths, windows[i].node_runs)) {
      profile_paths.insert(path);
      for (const auto& [layer, bytes] : findings[i].kept.at(path).bytes_at_peak) {
        by_layer[layer] += bytes;
        analysis.sessions[windows[i].profile].tracing.count += bytes;
      }
    }
  for (const auto& [index, bytes] : by_layer) {
    LayerFigures& layer = analysis.layers[index];
    layer.tracing_peak_bytes = std::min(layer.self.peak_bytes, std::max(layer.tracing_peak_bytes, bytes));
  }
  for (std::uint32_t stack = 1; stack < recording.stacks().size(); ++stack)
    tracers_own.stacks[stack] = profile_paths.contains(paths.of(StackId{stack}));
  return tracers_own;
}

}  // namespace headroom::attribution
