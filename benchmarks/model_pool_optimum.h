// The theoretical minimum of loading time over all eviction policies, for sequential requests: the reference
// for the pool's policy.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "model_pool_simulation.h"

namespace headroom::bench {

// The part of the budget that models may use. A model can be loaded if its load peak fits next to the loaded
// models.
struct AvailableMemory {
  Bytes bytes;
  static constexpr std::size_t kMostModels = 16;  // 2^16 sets of loaded models are examined for each request
};

// The minimum for a policy that knows all requests in advance: seconds of loading models that had been loaded
// before. Exact, by dynamic programming over the sets of loaded models: requests × models × 2^models steps,
// and memory for 2^models numbers.
double least_reload_seconds(const std::vector<SimulatedModel>& models, const std::vector<std::size_t>& trace,
                            AvailableMemory available);

// The minimum for a policy that knows how often each model is requested, but not when: expected loading
// seconds per request, for independent requests. `share` is the share of all requests. Exact to a millionth:
// the average cost of a Markov decision process, by relative value iteration (Puterman, Markov Decision
// Processes, section 8.5.5).
double least_seconds_a_request(const std::vector<SimulatedModel>& models, const std::vector<double>& share,
                               AvailableMemory available);

}  // namespace headroom::bench
