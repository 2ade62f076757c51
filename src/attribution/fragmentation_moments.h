// The moments of the heap's fragmentation that the first pass over a recording passed over: it takes them no
// denser than one in 32 events a live block, and learns only at the end when the heap was largest.
#pragma once

#include <vector>

#include "attribution/recording_analysis.h"
#include "recording/recording.h"

namespace headroom::attribution {

// Events that another pass takes under half a second for.
inline constexpr std::int64_t kCheaplyReadAgain = 4'000'000;

// Adds to `analysis.fragmentation` what was there at `passed_over`; where the recording is cheaply read again
// and there are few moments, that of the peak, too, and up to 32 spread over the time, fewer with many live
// blocks. One more pass; none if there is nothing to add.
void add_fragmentation_moments(recording::Recording& recording, std::vector<Nanoseconds> passed_over,
                               RecordingAnalysis& analysis);

}  // namespace headroom::attribution
