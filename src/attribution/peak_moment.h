// When a recording of samples was fullest, as half A of its samples says (recording/sample_half.h). What was
// live then is told by half B, and so is not too high by the luck of the choice.
#pragma once

#include <optional>

#include "base/units.h"
#include "recording/recording.h"

namespace headroom::attribution {

// The middle of the first stretch of time in which half A is at its highest: between two changes A says
// nothing, and at either edge the program is as a rule on its way up or down. What counts is the state after
// the last event at or before the moment. One pass; absent where nothing was sampled, so that every moment is
// exact.
std::optional<Nanoseconds> peak_moment_of_samples(recording::Recording& recording);

}  // namespace headroom::attribution
