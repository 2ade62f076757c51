// The worker's run with --pool: frame by frame through all models, which a pool loads and gives up so that
// the process stays inside the budget. It begins with nothing loaded: the first loads are part of it.
#pragma once

#include "base/result.h"
#include "bench/worker_models.h"

namespace headroom::bench {

Status run_pooled(Worker& worker);

}  // namespace headroom::bench
