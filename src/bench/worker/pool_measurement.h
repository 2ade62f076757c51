// The worker's run with --pool: each frame goes through all models. A pool loads and unloads them to keep the
// process within its budget. The run starts with no model loaded, so it includes the first loads.
#pragma once

#include "base/result.h"
#include "bench/worker/job_state.h"

namespace headroom::bench {

Status run_pooled(Worker& worker);

}  // namespace headroom::bench
