// The pool's own decisions (pool_state.h) in simulated time: threads that ask for one model after another,
// loads and runs that take as long as they were measured to.
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
  double longest_wait = 0;    // of a request, in seconds
  std::int64_t loads = 0;
};

// Serves `trace` by `threads` threads, which take the next request as soon as they have served one. Threads
// do not slow each other down.
Simulated simulate_pool(const std::vector<SimulatedModel>& models, const std::vector<std::size_t>& trace,
                        Bytes budget, Bytes margin, Bytes baseline, int threads, pool::Eviction eviction,
                        Nanoseconds load_delay = {});

}  // namespace headroom::bench
