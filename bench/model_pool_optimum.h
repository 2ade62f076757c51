// The least that any choice of what to give up could load, for one request after another: what the pool's
// policy is to be held against.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "model_pool_simulation.h"

namespace headroom::bench {

// What of the budget models may have: a model is loaded where those that stay and its load peak fit in.
struct Room {
  Bytes bytes;
  static constexpr std::size_t kMostModels = 16;  // 2^16 sets of loaded models are looked at for each request
};

// Of whoever knows all requests beforehand: the least seconds of loading models that had been loaded before.
// Exact, by dynamic programming over the sets of loaded models: time and memory are requests × models ×
// 2^models steps and 2^models numbers.
double least_reload_seconds(const std::vector<SimulatedModel>& models, const std::vector<std::size_t>& trace,
                            Room room);

// Of whoever knows how often each model is asked for, and not when: the least expected seconds of loading for
// a request, where requests do not depend on each other. `share` is of all requests. Exact to a millionth:
// the average cost of a Markov decision process, by relative value iteration (Puterman, Markov Decision
// Processes, section 8.5.5).
double least_seconds_a_request(const std::vector<SimulatedModel>& models, const std::vector<double>& share,
                               Room room);

}  // namespace headroom::bench
