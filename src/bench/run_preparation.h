// What a run does before it measures: it proves what its limits are worth, and has the models and the source
// prepared, or takes what was prepared before.
#pragma once

#include "base/result.h"
#include "bench/bench_run.h"

namespace headroom::bench {

// The limit of memory and that of GPU memory, into the result. An error is wrong use; a limit that could not
// be proved is none, and a warning.
Status prove_limits(Run& run);

// Sets run.prepared, run.metadata_path and what the result says of the source. An error ends the run.
Status prepare(Run& run);

}  // namespace headroom::bench
