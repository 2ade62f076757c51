// The contents of a model's heap, by kind and by graph node. `headroom bench --layers` measures them, and
// `headroom report` finds them in a recording. docs/trace-report.md defines the kinds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace headroom {

enum class MemoryKind {
  weights,         // parameters of the nodes, by the runtime's profile
  graph,           // other memory from loading: graph, kernels, prepacked weights
  tensors,         // in the runtime's arena, at its peak use in the profiled runs
  arena_rounding,  // rounding of those tensors
  arena_unused,    // held by the arena, but unused at that time
  arena_later,     // what the arena allocated after the profiled runs; its use is unknown
  workspace,       // allocated during runs, outside the arena
  run_later,       // allocated during runs after the profiled ones; in the arena or outside, unknown which
  run,             // allocated during runs, if the runtime's profile does not report its arena
  tracing,         // the runtime's profiler, which only tracing enables
  module,          // outside the model: `name` is the program or library that allocated it
  unnamed,         // unknown
};
// "arena_unused".
std::string_view name_of(MemoryKind kind);

struct MemoryShare {
  MemoryKind kind = MemoryKind::unnamed;
  std::string name;  // for a module
  Bytes bytes;
  friend bool operator==(const MemoryShare&, const MemoryShare&) = default;
};

// One node of the graph, over its profiled runs.
struct NodeMemory {
  std::string name, operation, provider;
  std::int64_t runs = 0;
  Nanoseconds duration;                                  // of all its runs
  std::optional<Bytes> output, activations, parameters;  // of one run, from the runtime's profile
  std::optional<Bytes> in_use;                           // largest arena use after this node
  friend bool operator==(const NodeMemory&, const NodeMemory&) = default;
};

// A separate, traced run of one model, in addition to the measured run.
struct LayerMemory {
  std::string recording;    // path inside the run folder
  std::int64_t frames = 0;  // frames in the traced run
  Bytes peak;               // of the worker's heap
  // All allocations that were live at that peak, largest first. The sum is the peak.
  std::vector<MemoryShare> shares;
  std::string peak_node;          // the node after which arena use was largest
  std::vector<NodeMemory> nodes;  // in the order of their first run
  friend bool operator==(const LayerMemory&, const LayerMemory&) = default;
};

}  // namespace headroom
