// The tables of `model_pool simulate` and `simulate_made_up`: loading seconds of the pool's policy and of
// LRU.
#pragma once

#include <cstddef>
#include <vector>

#include "model_pool_simulation.h"

namespace headroom::bench {

struct SimulatedRuns {
  std::vector<SimulatedModel> models;
  std::vector<std::size_t> order;  // the models by size
  Bytes budget, margin, baseline;
  std::size_t requests = 0;
  int threads = 1;
  Nanoseconds load_delay;
};

// One row for each trace, of nine seeds. One thread shows the policies alone. With more threads, each holds a
// session that cannot be evicted.
void print_simulated_runs(const SimulatedRuns& run);

// The same for 48 sets of models with random sizes and load times, in three budgets.
void print_made_up_sets(std::size_t requests, int threads);

}  // namespace headroom::bench
