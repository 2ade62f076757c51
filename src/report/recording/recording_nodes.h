// What the tensors of a graph's nodes take, beside what the nodes' layers hold. With a runtime's arena the
// two have little to do with each other: a layer holds what was allocated in its node's time, which is a
// block that the arena took from the system, of twice the size of the last, and which serves the nodes after
// it, too. So a person who wants a smaller model looks at the tensors, one who tunes the arena at the layers.
#pragma once

#include <string>
#include <vector>

#include "attribution/session_memory.h"
#include "base/units.h"
#include "report/recording/recording_views.h"
#include "report/screen_lines.h"

namespace headroom::report {

// The runtime told of an arena that its nodes' tensors lie in.
bool has_arena(const attribution::SessionMemory& session);
// That of any session.
bool has_arena(const recording::RecordingInfo& info, const attribution::RecordingAnalysis& analysis);

// Bytes of one run that the node reads and writes; no parameters.
Bytes tensors_of(const NodeMemory& node);

// What the layer of each of the session's nodes held at the heap's peak, by itself and without what was there
// for the tracing's sake.
std::vector<Bytes> layers_of_nodes(const attribution::SessionMemory& session,
                                   const attribution::RecordingAnalysis& analysis);

// A table of the nodes with most tensors, and of the node after which the arena was fullest. Without sizes
// from the runtime there is no table.
void add_nodes(ScreenLines& screen, const attribution::SessionMemory& session,
               const attribution::RecordingAnalysis& analysis);

}  // namespace headroom::report
