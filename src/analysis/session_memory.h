// What a model's session holds, told apart by kind: what loading left (weights, prepacked copies, the graph),
// tensors in use, the arena's rounding of them, and arena that is held and unused. From the recording's
// scopes and the runtime's own profile of the first runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/recording_analysis.h"
#include "base/units.h"
#include "recording/recording.h"

namespace headroom::analysis {

// One node of the graph, over its profiled runs.
struct NodeMemory {
  std::string name, operation, provider;
  std::int64_t runs = 0;
  Nanoseconds duration;                                  // of all its runs
  std::optional<Bytes> output, activations, parameters;  // of one run, as the runtime says
  std::optional<Bytes> in_use;                           // most that the arena had in use after it
};

struct SessionMemory {
  std::string name;              // the layer's path
  Bytes loaded;                  // live at the heap's peak, allocated while it was loaded
  Bytes run;                     // live at the heap's peak, allocated in its runs (arena and all else)
  std::optional<Bytes> weights;  // sum of the nodes' parameters, as the runtime says; part of `loaded`
  // When the arena had the most in use: tensors as asked for, rounded up by the arena, and held from the
  // system.
  std::optional<Bytes> tensors, in_use, arena_held;
  std::string peak_node;          // the node after which that was
  std::vector<NodeMemory> nodes;  // in the order of the graph's first run
};

// A session for each profile that could be read. `analysis` is of the same recording.
std::vector<SessionMemory> session_memory(const recording::RecordingInfo& info,
                                          const RecordingAnalysis& analysis);

}  // namespace headroom::analysis
