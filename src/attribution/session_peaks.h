// What each of a recording's sessions held when the heap was fullest. A model that is loaded, run and
// released again and again is many sessions of one name, and their layers are the same: what is live of them
// is told apart by when it was allocated.
#pragma once

#include "attribution/recording_analysis.h"
#include "recording/recording.h"

namespace headroom::attribution {

// Sets analysis.sessions and the layers' of_session; find_profile_memory() has been called. One more pass, up
// to the heap's peak, and that of find_arena_stacks(); none without profiles.
void find_session_peaks(recording::Recording& recording, RecordingAnalysis& analysis);

}  // namespace headroom::attribution
