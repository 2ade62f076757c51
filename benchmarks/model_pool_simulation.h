// Runs the pool's decisions (pool_state.h) in simulated time: threads request one model after another, and
// loads and runs take their measured time.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "pool/eviction_policy.h"

namespace headroom::bench {

struct SimulatedModel {
  Nanoseconds load_time, run_time;
  Bytes load_peak, run_peak;
};

struct Simulated {
  double reload_seconds = 0;  // of models that had been loaded before
  double all_seconds = 0;     // until the last request was served
  double longest_wait = 0;    // longest wait of a request, in seconds
  std::int64_t loads = 0;
};

// Serves `trace` with `threads` threads. A thread takes the next request as soon as it has served one.
// Threads do not slow each other down.
Simulated simulate_pool(const std::vector<SimulatedModel>& models, const std::vector<std::size_t>& trace,
                        Bytes budget, Bytes margin, Bytes baseline, int threads, pool::Eviction eviction,
                        Nanoseconds load_delay = {});

}  // namespace headroom::bench
