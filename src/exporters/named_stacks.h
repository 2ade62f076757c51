// The stacks of a recording for the formats that show them: by layer and stack, by names, and over time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "attribution/layer_tree.h"
#include "exporters/exporter_list.h"
#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::exporters {

// Blocks and their bytes. Estimated if samples represent other allocations (docs/trace-report.md).
struct Amount {
  std::int64_t blocks = 0, bytes = 0;
};

// A call stack in a layer. The analysis has figures by stack and by layer; here they are by both, so that
// layers can be shown above their stacks.
struct StackAccount {
  attribution::LayerIndex layer = 0;
  StackId stack;
  std::array<Amount, kMetrics> amounts{};  // indexed by Metric
  const Amount& operator[](Metric metric) const { return amounts[static_cast<std::size_t>(metric)]; }
  Amount& operator[](Metric metric) { return amounts[static_cast<std::size_t>(metric)]; }
};

struct StackAccounts {
  attribution::LayerTree layers;
  std::vector<StackAccount> accounts;  // in the order of first allocations
  bool has_temporary = false;          // only in full recordings
};

// One pass. The sums over all accounts equal the totals of attribution::analyze_recording.
StackAccounts account_stacks(recording::Recording& recording);

// The stacks as names, outermost first. The layers of a stack come before its frames.
struct NamedFrame {
  std::string name;
  std::string file;  // the source file, else the module; empty for layers and if unknown
  bool is_layer = false;
};

struct NamedStack {
  std::vector<std::uint32_t> frames;  // indices into NamedStacks::frames, outermost first
  std::size_t layers = 0;             // number of leading frames that are layers
  std::string layer;                  // path of the layers
  std::array<Amount, kMetrics> amounts{};
  const Amount& operator[](Metric metric) const { return amounts[static_cast<std::size_t>(metric)]; }
};

struct NamedStacks {
  std::vector<NamedFrame> frames;  // distinct frames
  std::vector<NamedStack> stacks;  // distinct stacks
  bool has_temporary = false;
};

// Two addresses in the same function become one frame, and stacks that differ only in addresses become one
// stack.
NamedStacks name_stacks(const ExportInput& input);

// Looks up all addresses of the recording's stacks at once, which is much faster than one by one.
void prepare_symbols(const ExportInput& input);

// One stack in the format of joined(); "(no stack)" if none was recorded. Call prepare_symbols() first.
std::string joined_stack(const ExportInput& input, StackId stack);

// Layers and frames as one text, outermost first: "main;load;malloc". Characters that separate frames or
// lines are replaced, because the formats have no escapes.
std::string joined(const NamedStacks& named, std::span<const std::uint32_t> frames);

// The layers from the outermost to `layer`; empty for 0.
std::vector<attribution::LayerIndex> path_to(const attribution::LayerTree& layers,
                                             attribution::LayerIndex layer);

// Converts scope changes of each thread into layers that the thread leaves and enters.
class LayerWalk {
 public:
  explicit LayerWalk(const recording::Recording& recording) : layers_(recording) {}

  attribution::LayerTree& layers() { return layers_; }

  // Moves the thread to the event's scope: calls leave(layer) from the innermost layer outwards up to the
  // common ancestor, then enter(layer) inwards.
  template <class Leave, class Enter>
  void go(const MemoryEvent& event, Leave&& leave, Enter&& enter) {
    if (event.is_weight) return;  // a weight's scope is not its thread's scope
    attribution::LayerIndex& current = current_[event.thread.index];
    const attribution::LayerIndex next = layers_.of(event.scope);
    if (next == current) return;
    const auto from = path_to(layers_, current), to = path_to(layers_, next);
    std::size_t common = 0;
    while (common < std::min(from.size(), to.size()) && from[common] == to[common]) ++common;
    for (std::size_t i = from.size(); i-- > common;) leave(from[i]);
    for (std::size_t i = common; i < to.size(); ++i) enter(to[i]);
    current = next;
  }

 private:
  attribution::LayerTree layers_;
  std::unordered_map<std::uint32_t, attribution::LayerIndex> current_;  // by thread
};

}  // namespace headroom::exporters
