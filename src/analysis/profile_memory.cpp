#include "analysis/profile_memory.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "analysis/layer_ledger.h"

namespace headroom::analysis {
namespace {

// A profile misses a node now and then (its own limit, a run that was cut short).
constexpr double kRecordedNodes = 0.9;

struct Window {
  std::string run_layer;
  std::int64_t from = 0, to = 0;  // ns: the profiled runs
  std::size_t node_runs = 0;
};

std::vector<Window> profiled_windows(const recording::RecordingInfo& info) {
  // The last node's record is written after the node.
  constexpr std::int64_t kAfterTheLastNode = 1'000'000;
  std::vector<Window> windows;
  for (const recording::RuntimeProfile& profile : info.profiles) {
    const auto& runs = profile.data.runs;
    if (runs.empty()) continue;
    Window window{recording::path_of(info, profile.session) + "/run",
                  std::numeric_limits<std::int64_t>::max(), 0, runs.size()};
    for (const recording::NodeRun& run : runs) {
      const std::int64_t start = profile.start.count + run.start.count;
      window.from = std::min(window.from, start);
      window.to = std::max(window.to, start + run.duration.count + kAfterTheLastNode);
    }
    windows.push_back(std::move(window));
  }
  return windows;
}

// Blocks of one stack that were allocated in profiled runs, between the nodes.
struct Kept {
  std::int64_t blocks = 0, bytes = 0, bytes_at_peak = 0;
};
using KeptByStack = std::unordered_map<std::uint32_t, Kept>;

bool passes_through(std::span<const std::uint64_t> frames, std::uint64_t call) {
  return std::find(frames.begin(), frames.end(), call) != frames.end();
}

// The innermost call that all these stacks have in common.
std::optional<std::uint64_t> common_call(const recording::StackTable& stacks,
                                         const std::vector<std::uint32_t>& which) {
  std::vector<std::uint64_t> common;  // outermost first
  for (std::size_t i = 0; i < which.size(); ++i) {
    const auto frames = stacks.frames(StackId{which[i]});
    std::vector<std::uint64_t> reversed(frames.rbegin(), frames.rend());
    if (i == 0) common = reversed;
    const auto [end, ignored] = std::mismatch(common.begin(), common.end(), reversed.begin(), reversed.end());
    common.erase(end, common.end());
  }
  if (common.empty()) return std::nullopt;
  return common.back();
}

class ProfileSearch {
 public:
  ProfileSearch(recording::Recording& recording, const Window& window, std::int64_t peak_time)
      : recording_(recording), window_(window), peak_time_(peak_time), layers_(recording) {}

  std::int64_t bytes_at_peak() {
    walk();
    std::vector<std::uint32_t> of_every_node;
    const auto needed = static_cast<std::int64_t>(kRecordedNodes * static_cast<double>(window_.node_runs));
    for (const auto& [stack, kept] : kept_)
      if (kept.blocks >= std::max<std::int64_t>(1, needed)) of_every_node.push_back(stack);
    const recording::StackTable& stacks = recording_.stacks();
    const auto call = common_call(stacks, of_every_node);
    if (!call) return 0;
    // What else is allocated behind that call (the list of the records) is the profile's too, unless nodes
    // allocate behind it as well: then the call is not the profile's own.
    const bool shared = std::any_of(node_stacks_.begin(), node_stacks_.end(), [&](const auto& node) {
      return passes_through(stacks.frames(StackId{node.first}), *call);
    });
    std::int64_t bytes = 0;
    for (const auto& [stack, kept] : kept_) {
      const bool recorded =
          std::find(of_every_node.begin(), of_every_node.end(), stack) != of_every_node.end();
      if (recorded || (!shared && passes_through(stacks.frames(StackId{stack}), *call)))
        bytes += kept.bytes_at_peak;
    }
    return bytes;
  }

 private:
  struct Block {
    std::uint32_t stack;
    std::int64_t size;
  };

  void walk() {
    const std::int64_t end = std::max(peak_time_, window_.to);
    bool before_peak = true, over = false;
    recording_.for_each_event([&](const MemoryEvent& event) {
      over = over || event.time.count > end;
      if (over) return;
      if (before_peak && event.time.count > peak_time_) {
        before_peak = false;
        take_peak();
      }
      visit(event);
    });
    if (before_peak) take_peak();
  }

  void visit(const MemoryEvent& event) {
    if (event.kind == MemoryEventKind::release) {
      const auto found = live_.find(event.address);
      if (found == live_.end()) return;
      Kept& kept = kept_[found->second.stack];
      --kept.blocks;
      kept.bytes -= found->second.size;
      live_.erase(found);
      return;
    }
    if (event.kind != MemoryEventKind::allocate || event.time.count < window_.from ||
        event.time.count > window_.to)
      return;
    const std::string& layer = layers_.tree()[layers_.layer_of(event.scope)].path;
    if (layer == window_.run_layer) {
      live_[event.address] = {event.stack.index, static_cast<std::int64_t>(event.size)};
      Kept& kept = kept_[event.stack.index];
      ++kept.blocks;
      kept.bytes += static_cast<std::int64_t>(event.size);
    } else if (layer.starts_with(window_.run_layer)) {
      ++node_stacks_[event.stack.index];
    }
  }

  void take_peak() {
    for (auto& [stack, kept] : kept_) kept.bytes_at_peak = kept.bytes;
  }

  recording::Recording& recording_;
  const Window& window_;
  std::int64_t peak_time_;
  LayerLedger layers_;
  std::unordered_map<std::uint64_t, Block> live_;
  KeptByStack kept_;
  std::unordered_map<std::uint32_t, std::int64_t> node_stacks_;
};

}  // namespace

void find_profile_memory(recording::Recording& recording, RecordingAnalysis& analysis) {
  if (!analysis.full) return;
  for (const Window& window : profiled_windows(recording.info())) {
    const std::int64_t bytes = ProfileSearch(recording, window, analysis.peak_time.count).bytes_at_peak();
    for (LayerFigures& layer : analysis.layers)
      if (layer.path == window.run_layer)
        layer.tracing_peak_bytes = std::min(layer.self.peak_bytes, std::max(layer.tracing_peak_bytes, bytes));
  }
}

}  // namespace headroom::analysis
