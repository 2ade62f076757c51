// What a model's session holds, told apart by kind: what loading left (weights, prepacked copies, the graph),
// tensors in use, the arena's rounding of them, and arena that is held and unused. From the recording's
// scopes and the runtime's own profile of the first runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attribution/recording_analysis.h"
#include "base/units.h"
#include "recording/recording.h"
#include "types/layer_memory.h"

namespace headroom::attribution {

struct SessionMemory {
  std::string name;  // the layer's path
  // A model that is loaded again is another session of the same name: this one's number among them, and how
  // many there were.
  std::int64_t load = 1, loads = 1;
  Bytes loaded;   // live at the heap's peak, allocated while it was loaded
  Bytes run;      // live at the heap's peak, allocated in its runs (arena and all else)
  Bytes tracing;  // the runtime's profile, which only tracing switches on; not in the two above
  // Part of `run`: allocated in runs after the profiled ones, of which the runtime says nothing.
  Bytes later;
  // What the arena took from the system: while the session was loaded (part of `loaded`), and in runs until
  // the profile ended and after it (parts of `run`). Absent where its chunks are not told from the rest.
  struct ArenaChunks {
    Bytes loaded, run, later;
  };
  std::optional<ArenaChunks> arena;
  std::optional<Bytes> weights;  // sum of the nodes' parameters, as the runtime says; part of `loaded`
  // When the arena had the most in use in the profiled runs: tensors as asked for, rounded up by the arena,
  // and held from the system. Absent where the profile tells of no arena.
  std::optional<Bytes> tensors, in_use, arena_held;
  std::string peak_node;          // the node after which that was
  std::vector<NodeMemory> nodes;  // in the order of the graph's first run
};

// A session for each profile that could be read. Of sessions of one name those that held nothing at the
// heap's peak are left out, as long as one is left. `analysis` is of the same recording.
std::vector<SessionMemory> session_memory(const recording::RecordingInfo& info,
                                          const RecordingAnalysis& analysis);

// The same told apart by kind; the shares add up to loaded + run. The arena is told as it was when it had the
// most in use in the profiled runs, which need not be the heap's peak. What it took in later runs is a kind
// of its own; where its chunks are not known, that is all that later runs allocated.
std::vector<MemoryShare> shares_of(const SessionMemory& session);

// Everything that was live at the heap's peak, by the kinds of all sessions and the modules outside of them;
// nodes and peak_node are those of the session that held most. `recording` and `frames` are left empty.
LayerMemory layer_memory(const recording::RecordingInfo& info, const recording::StackTable& stacks,
                         const RecordingAnalysis& analysis);

}  // namespace headroom::attribution
