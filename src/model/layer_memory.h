// What a model's heap is made of, by kind and by node of its graph: the result of `headroom bench --layers`,
// and part of what `headroom report` says of a recording. docs/trace-report.md defines the kinds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace headroom {

enum class MemoryKind {
  weights,         // parameters of the nodes, as the runtime counts them
  graph,           // what else loading left: graph, kernels, prepacked copies of weights
  tensors,         // in the runtime's arena, when it had the most in use in the profiled runs
  arena_rounding,  // of those tensors
  arena_unused,    // held by the arena and not in use then
  arena_later,     // what the arena took after the profiled runs: no one says how much of it was in use
  workspace,       // allocated in runs beside the arena
  run_later,       // allocated in runs after the profiled ones, by the arena or beside it: not known
  run,             // allocated in runs of which the runtime's profile tells no arena
  tracing,         // the runtime's profile of itself, which only tracing switches on
  module,          // outside of the model: `name` is the program or library that asked for it
  unnamed,         // not known
};
// "arena_unused".
std::string_view name_of(MemoryKind kind);

struct MemoryShare {
  MemoryKind kind = MemoryKind::unnamed;
  std::string name;  // of a module
  Bytes bytes;
  friend bool operator==(const MemoryShare&, const MemoryShare&) = default;
};

// One node of the graph, over its profiled runs.
struct NodeMemory {
  std::string name, operation, provider;
  std::int64_t runs = 0;
  Nanoseconds duration;                                  // of all its runs
  std::optional<Bytes> output, activations, parameters;  // of one run, as the runtime says
  std::optional<Bytes> in_use;                           // most that the arena had in use after it
  friend bool operator==(const NodeMemory&, const NodeMemory&) = default;
};

// A traced run of one model, apart from the measured one.
struct LayerMemory {
  std::string recording;    // path inside the run folder
  std::int64_t frames = 0;  // that were run
  Bytes peak;               // of the worker's heap
  // Everything that was live at that peak, the largest first; they add up to it.
  std::vector<MemoryShare> shares;
  std::string peak_node;          // the node after which the arena had the most in use
  std::vector<NodeMemory> nodes;  // in the order of the graph's first run
  friend bool operator==(const LayerMemory&, const LayerMemory&) = default;
};

}  // namespace headroom
