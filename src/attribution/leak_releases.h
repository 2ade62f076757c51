// When what grew from cycle to cycle was released.
#pragma once

#include "attribution/cycle_leaks.h"
#include "recording/recording.h"

namespace headroom::attribution {

// Sets `released_at` of each place that grew until it was released, and of the verdicts that tell of such.
// One more pass over the recording, none where there is no such place.
void find_release_times(recording::Recording& recording, LeakVerdict& verdict);

}  // namespace headroom::attribution
