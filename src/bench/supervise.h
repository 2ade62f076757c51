// One loop over all workers that run at once: listens to them, samples them, and ends those that hang.
#pragma once

#include <functional>
#include <vector>

#include "base/units.h"
#include "bench/interrupt.h"
#include "bench/worker_run.h"

namespace headroom::bench {

// Called about every `interval` while runs are under way, with the runs; for metrics and progress.
using Tick = std::function<void(const std::vector<WorkerRun*>&)>;

// The shares of pages of all runs, read together: at each phase mark of any, with each tick, and on request
// on a clock of its own, between those.
struct ShareWatch {
  bool on_a_clock = false;
  Tick each;  // called after each reading; may be empty
};

// Runs until all have finished. Opens the gates when every run that has not ended waits there. On an
// interrupt all are stopped and it returns false.
bool supervise(const std::vector<WorkerRun*>& runs, Interrupt& interrupt, Nanoseconds interval,
               const Tick& tick, const ShareWatch& shares = {});

}  // namespace headroom::bench
