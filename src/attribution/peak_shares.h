// Live memory at the heap's peak, by layer and module, by use in PyTorch, and by session of a runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attribution/recording_analysis.h"
#include "base/units.h"
#include "recording/recording.h"
#include "types/bench_result.h"

namespace headroom::attribution {

// Each live byte has one share: that of its layer or, outside all layers, of the module whose code requested
// it (a runtime's own tables, the program's input buffers). Memory that exists only because of tracing is a
// separate share. A byte is unnamed if it has no stack, or a stack outside all known modules.
enum class ShareKind { layer, module, tracing, unnamed };

struct PeakPart {
  std::string name;  // of a share: a layer's path or a module's file name; empty for the rest
  std::int64_t bytes = 0;
  double variance = 0;  // as in LiveFigures

  std::optional<double> standard_error() const { return standard_error_of(variance); }
};
struct PeakShare : PeakPart {
  ShareKind kind = ShareKind::unnamed;
};

// The largest first; the sum is analysis.peak_bytes. `stacks` and `analysis` belong to the same recording.
std::vector<PeakShare> peak_shares(const recording::RecordingInfo& info, const recording::StackTable& stacks,
                                   const RecordingAnalysis& analysis);

// Live memory of the stacks of one module, by responsible_module().
struct ModuleFigures {
  std::string name;  // file name; empty if unknown
  LiveFigures live;
};

// Modules with live memory at the heap's peak or at the end, ordered by both. They add up to the heap.
std::vector<ModuleFigures> module_figures(const recording::RecordingInfo& info,
                                          const recording::StackTable& stacks,
                                          const RecordingAnalysis& analysis);

// The module that is responsible for a stack's allocations: that of the innermost frame outside libraries
// that only pass allocations on (C and C++ libraries, dynamic loader, allocators, the tracer). Otherwise the
// module of the outermost frame. Empty if unknown.
std::string responsible_module(const recording::RecordingInfo& info, std::span<const std::uint64_t> frames);

// The innermost frame in that module. Nothing if all modules of the stack only pass allocations on.
std::optional<std::uint64_t> responsible_frame(const recording::RecordingInfo& info,
                                               std::span<const std::uint64_t> frames);

// The frames from the innermost one up to the responsible module's outermost frame before another module. All
// frames if no module is responsible.
std::span<const std::uint64_t> frames_within_module(const recording::RecordingInfo& info,
                                                    std::span<const std::uint64_t> frames);

// The use of memory in a PyTorch program, by the layers of its modules, weights, backward passes and
// optimizer steps: weights, activations, gradients, optimizer_state, other; without empty ones. The sum is
// analysis.peak_bytes. Empty if no module was called.
std::vector<PeakPart> peak_uses(const RecordingAnalysis& analysis);

// Memory of a model's session by kind: what loading left (weights, prepacked copies, the graph), tensors in
// use, the arena's rounding, and unused arena. From the recording's scopes and the runtime's profile of the
// first runs.
struct SessionMemory : SessionAtPeak {
  std::string name = {};  // the layer's path
  // A model that is loaded again is another session with the same name: this session's number, and their
  // count.
  std::int64_t load = 1, loads = 1;
  std::optional<Bytes> weights = {};  // the nodes' parameters, from the runtime; part of `loaded`
  // At the arena's peak in the profiled runs: requested bytes of tensors, the same rounded up by the arena,
  // and the arena's size. Absent if the profile has no arena.
  std::optional<Bytes> tensors = {}, in_use = {}, arena_held = {};
  std::string peak_node = {};          // the node before that moment
  std::vector<NodeMemory> nodes = {};  // in the order of the graph's first run
};

// One session for each readable profile. Of sessions with the same name, those without live memory at the
// heap's peak are left out, but at least one stays. `analysis` belongs to the same recording.
std::vector<SessionMemory> session_memory(const recording::RecordingInfo& info,
                                          const RecordingAnalysis& analysis);

// The session's memory by kind; the sum is loaded + run. The arena's figures are those of its peak in the
// profiled runs, which may differ from the heap's peak. Its chunks from later runs are a separate kind; if
// the chunks are not known, everything that later runs allocated is.
std::vector<MemoryShare> shares_of(const SessionMemory& session);

// Live memory at the heap's peak: the kinds of all sessions, and the modules outside them. nodes and
// peak_node are those of the largest session. Does not set `recording` and `frames`.
LayerMemory layer_memory(const recording::RecordingInfo& info, const recording::StackTable& stacks,
                         const RecordingAnalysis& analysis);

}  // namespace headroom::attribution
