// The part of a run before the measurement: proves the limits, and prepares the models and the source, or
// reads prepared data.
#pragma once

#include "base/result.h"
#include "bench/conductor/bench_state.h"

namespace headroom::bench {

// Proves the memory limit and the GPU memory limit and stores both in the result. An error means wrong use. A
// limit that could not be proved is a warning.
Status prove_limits(Run& run);

// Sets run.prepared, run.metadata_path and the source in the result. An error ends the run.
Status prepare(Run& run);

}  // namespace headroom::bench
