// What ONNX Runtime keeps for its profile of itself, which only tracing switches on: records of every node of
// every profiled run, which live until the session is released. On a small model they can be more than the
// model. They bear no mark, but give themselves away: no other place in a run allocates for each node anew,
// outside of the nodes' own time, and releases nothing of it. A place is the part of a stack that lies in the
// runtime.
#pragma once

#include "attribution/cycle_leaks.h"
#include "attribution/recording_analysis.h"
#include "recording/recording.h"

namespace headroom::attribution {

// Adds them to tracing_peak_bytes of the layers in which the sessions ran, and to analysis.sessions. One more
// pass, up to the heap's peak or the end of the last profile, whichever is later; nothing without profiles,
// or in a recording of samples, where single small blocks are not seen. The answer is for the verdict on
// leaks.
TracersOwnMemory find_profile_memory(recording::Recording& recording, RecordingAnalysis& analysis);

}  // namespace headroom::attribution
