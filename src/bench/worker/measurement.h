// The worker's measured run. Loads the models, warms them up, and runs them over every frame of the source,
// or over inputs made from their signatures.
#pragma once

#include "base/result.h"
#include "bench/worker/job_state.h"

namespace headroom::bench {

// Runs the job of one model (inference) or of all models in one process (pipeline), through all phases after
// runtime_loaded.
Status run_inference(Worker& worker);

}  // namespace headroom::bench
