// Passes over a recording that follow the pass of RecordingAnalyzer and complete its figures.
#pragma once

#include <vector>

#include "attribution/layer_tree.h"
#include "attribution/recording_analysis.h"
#include "recording/recording.h"

namespace headroom::attribution {

// Another pass over this many events takes less than half a second.
inline constexpr std::int64_t kCheaplyReadAgain = 4'000'000;

// Adds moments to `analysis.fragmentation`: those of `passed_over`. The first pass measures at most once per
// 32 events per live block, and knows only at the end when the heap was largest. If another pass is cheap and
// few moments exist, also adds the peak and up to 32 moments at equal distances, fewer with many live blocks.
// One pass; none if there is nothing to add.
void add_fragmentation_moments(recording::Recording& recording, std::vector<Nanoseconds> passed_over,
                               RecordingAnalysis& analysis);

// Finds what ONNX Runtime keeps for its own profile, which only tracing switches on: records of every node of
// every profiled run, live until the session is released. On a small model they can be larger than the model.
// Nothing marks them, but their behaviour is unique: no other place in a run allocates again for each node,
// outside of the nodes' own time, and releases nothing of it. A place is the part of a stack in the runtime.
//
// Adds them to tracing_peak_bytes of the layers in which the sessions ran, and to analysis.sessions. The
// result is for the verdict on leaks. One pass, up to the heap's peak or the end of the last profile,
// whichever is later. No pass without profiles, or in a recording of samples, which lacks single small
// blocks.
TracersOwnMemory find_profile_memory(recording::Recording& recording, RecordingAnalysis& analysis);

// Sets analysis.sessions and the layers' of_session. Call find_profile_memory() before. If a model is loaded,
// run and released repeatedly, its sessions have the same name and layers; the time of allocation
// distinguishes them. One pass up to the heap's peak, and that of find_arena_stacks(); none without profiles.
void find_session_peaks(recording::Recording& recording, RecordingAnalysis& analysis);

struct ArenaStacks {
  std::vector<bool> is_arena;  // by StackId; stacks beyond its end are not
  std::vector<bool> is_told;   // by the number of a session's name: all stacks of its arena are known
  bool contains(StackId stack) const { return stack.index < is_arena.size() && is_arena[stack.index]; }
};

// Finds the stacks by which ONNX Runtime's arena allocates from the system. The runtime's profile covers the
// first three runs of a session and has the arena's size after each node. The calling place in the runtime
// distinguishes the arena's later allocations from others.
//
// A place is the innermost address of a stack that is in the runtime. It belongs to the arena if everything
// that it allocated for a session equals the arena's size at each node, except for a constant difference.
// This counts only if the profile shows the arena grow by these sums, or if the difference is 0.
//
// One pass, up to the end of the last profile; none if no profile has an arena. Call it after another pass
// over the whole recording, so that its stacks are known.
ArenaStacks find_arena_stacks(recording::Recording& recording, const SessionLayers& sessions);

}  // namespace headroom::attribution
