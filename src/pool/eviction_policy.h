// Chooses the models to evict when memory is needed. The policy has no threads, no clock and no I/O: the same
// sequence of calls gives the same choice. The pool and benchmarks/model_pool_simulation share it.
//
// A model's worth is the expected cost of evicting it: its load time × the probability of a request for it
// within the next kHorizon requests. More requests in that span don't raise the cost, because the model is
// loaded only once. The policy GreedyDual-Size-Frequency (GDSF) uses frequency × load time and another
// ageing; in simulations the loads took up to 40 % longer with it. Of the horizons 4, 8 and 16, 8 was best on
// the sets and traces of benchmarks/results/model_pool.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace headroom::pool {

enum class Eviction { by_cost, least_recently_used };  // least_recently_used: only for comparison

// A loaded model that may be evicted, and the bytes that evicting it frees.
struct Resident {
  std::size_t model = 0;
  Bytes size;
};

class EvictionPolicy {
 public:
  static constexpr double kHalfLife = 128;  // requests
  static constexpr double kHorizon = 8;     // requests

  explicit EvictionPolicy(Eviction kind = Eviction::by_cost) : kind_(kind) {}

  // Records a request for the model, loaded or not. Models are numbered from 0.
  void requested(std::size_t model);
  // Records a load and its time. The second load counts half, because the first may have waited for the
  // disk. Later loads count a quarter: with halves, other activity on the machine would decide the choice.
  void loaded(std::size_t model, Nanoseconds took);

  // Returns indexes of the residents to evict so that at least `needed` bytes are freed, none of them
  // unnecessarily. Empty if all of them together free too little.
  std::vector<std::size_t> choose(const std::vector<Resident>& residents, Bytes needed) const;

  // The expected load time in seconds within the next kHorizon requests if the model is evicted. With aged
  // counts and independent requests: (1 − exp(−kHorizon × uses / requests)) × load seconds.
  double worth(std::size_t model) const;
  Nanoseconds reload_time(std::size_t model) const;  // 0 before the first load

 private:
  struct ModelHistory {
    double uses = 0;          // aged to the request `at`
    std::int64_t at = 0;      // number of the last request for it
    Nanoseconds reload_time;  // 0: unknown
    bool is_reloaded = false;
  };
  ModelHistory& history(std::size_t model);
  std::vector<std::size_t> least_recently_used(const std::vector<Resident>& residents, Bytes needed) const;
  std::vector<std::size_t> least_worth(const std::vector<Resident>& residents, Bytes needed) const;

  Eviction kind_;
  std::int64_t requests_ = 0;
  double aged_requests_ = 0;  // aged like `uses`
  std::vector<ModelHistory> models_;
};

}  // namespace headroom::pool
