// Tensors of a graph's nodes, beside the memory of the nodes' layers. With a runtime's arena the two differ
// widely: a layer has the memory allocated while its node ran. That is a block for the arena, twice as large
// as the last one, and later nodes use it, too. To make a model smaller, look at the tensors; to tune the
// arena, look at the layers.
#pragma once

#include <string>
#include <vector>

#include "attribution/session_memory.h"
#include "base/units.h"
#include "report/recording/recording_views.h"
#include "report/screen_lines.h"

namespace headroom::report {

// True if the runtime reported an arena that contains its nodes' tensors.
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
