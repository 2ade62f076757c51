// Which models to give up when memory is needed. No threads, no clock, no I/O: what happened is told, and the
// same tellings give the same choice, so the pool and the simulation in bench/pool_simulation share it.
//
// A model's worth is what its absence would cost: the seconds of loading it again × how likely it is to be
// asked for within the next kHorizon requests. However often it is asked for then, it is loaded once. By uses
// × seconds, as in GreedyDual-Size-Frequency, what is in every second request and loads in no time is kept at
// the price of two that load slowly: where the smallest are asked for most, the pool loaded for a fifth
// longer. Of 4, 8 and 16 requests 8 did best on the sets and traces of bench/results/model_pool.md. That
// family ages by a rising floor; here a use halves in weight every kHalfLife requests of any model. Both
// forget, but the floor makes everything beside it as old as what was given up last, which on models that are
// asked for in turn is LRU's worst case: in simulations of 20,000 requests for 12 models it loaded for up to
// 40 % longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace headroom::pool {

enum class Eviction { by_cost, least_recently_used };  // the latter to compare with

// A loaded model that may be given up, and what that would give back.
struct Resident {
  std::size_t model = 0;
  Bytes size;
};

class EvictionPolicy {
 public:
  static constexpr double kHalfLife = 128;  // requests
  static constexpr double kHorizon = 8;     // requests

  explicit EvictionPolicy(Eviction kind = Eviction::by_cost) : kind_(kind) {}

  // A request for it, whether it was loaded or not. Models are numbered from 0.
  void requested(std::size_t model);
  // It was loaded in this time. The second counts half, as a first load may have waited for the disk, and
  // those after it a quarter: by halves, what else the machine does would choose.
  void loaded(std::size_t model, Nanoseconds took);

  // Indexes of the residents to give up so that `needed` or more comes back, none of them without need; empty
  // if all together would not do.
  std::vector<std::size_t> choose(const std::vector<Resident>& residents, Bytes needed) const;

  // Seconds of loading that its absence is expected to cost within kHorizon requests: with uses and requests
  // aged, (1 − exp(−kHorizon × uses / requests)) × seconds to load it, as of requests that do not depend on
  // each other.
  double worth(std::size_t model) const;
  Nanoseconds reload_time(std::size_t model) const;  // 0 before the first load

 private:
  struct Known {
    double uses = 0;          // as of `at`
    std::int64_t at = 0;      // the last request for it
    Nanoseconds reload_time;  // 0: not known
    bool is_reloaded = false;
  };
  Known& known(std::size_t model);
  std::vector<std::size_t> least_recently_used(const std::vector<Resident>& residents, Bytes needed) const;
  std::vector<std::size_t> least_worth(const std::vector<Resident>& residents, Bytes needed) const;

  Eviction kind_;
  std::int64_t requests_ = 0;
  double aged_requests_ = 0;  // each halves in weight as uses do
  std::vector<Known> models_;
};

}  // namespace headroom::pool
