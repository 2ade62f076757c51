// The worker's measured run: models loaded, warmed, and run over every frame of the source, or over inputs
// made of their signatures.
#pragma once

#include "base/result.h"
#include "bench/worker_models.h"

namespace headroom::bench {

// The job of one model (inference) or of all in one process (pipeline), through all phases behind
// runtime_loaded.
Status run_inference(Worker& worker);

}  // namespace headroom::bench
