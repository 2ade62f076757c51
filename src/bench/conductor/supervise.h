// One loop over all workers that run at the same time: reads their events, samples their memory, and kills
// those that hang.
#pragma once

#include <functional>
#include <vector>

#include "base/units.h"
#include "bench/conductor/measuring_child.h"
#include "bench/interrupt.h"

namespace headroom::bench {

// supervise() calls it about every `interval`, for metrics and progress.
using Tick = std::function<void(const std::vector<WorkerRun*>&)>;

// Reads the PSS of all workers together: when any of them starts a phase, and at each tick. With
// `on_a_clock`, also every 50 ms. A reading that takes longer than 0.5 ms is followed by a pause of 100 times
// its duration.
struct ShareWatch {
  bool on_a_clock = false;
  Tick each;  // called after each reading; may be empty
};

// Runs until all workers have ended. Opens the gates when every worker that has not ended waits at its gate.
// On an interrupt, stops all workers and returns false.
bool supervise(const std::vector<WorkerRun*>& runs, Interrupt& interrupt, Nanoseconds interval,
               const Tick& tick, const ShareWatch& shares = {});

}  // namespace headroom::bench
