#include "model_pool_optimum.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace headroom::bench {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSmallEnough = 1e-6;  // relative to the average cost
constexpr double kNanosecond = 1e-9;   // if all models fit, the average cost is 0
constexpr int kMostRounds = 20'000;

using Set = std::uint32_t;  // one bit per model

class Sets {
 public:
  Sets(const std::vector<SimulatedModel>& models, AvailableMemory available) : models_(models) {
    std::vector<Bytes> sizes(std::size_t{1} << models.size());
    for (Set set = 1; set < sizes.size(); ++set)
      for (std::size_t m = 0; m < models.size(); ++m)
        if (has(set, m)) sizes[set] += models[m].run_peak;
    for (const Bytes size : sizes) fits_.push_back(size <= available.bytes);
    for (std::size_t m = 0; m < models.size(); ++m) {
      loadable_.emplace_back();
      const Bytes peak = std::max(models[m].load_peak, models[m].run_peak);
      for (const Bytes size : sizes) loadable_.back().push_back(size + peak <= available.bytes);
    }
  }

  static bool has(Set set, std::size_t model) { return (set >> model & 1) != 0; }
  static Set with(Set set, std::size_t model) { return set | Set{1} << model; }
  static Set without(Set set, std::size_t model) { return set & ~(Set{1} << model); }
  Set count() const { return static_cast<Set>(fits_.size()); }
  std::size_t models() const { return models_.size(); }
  bool fits(Set set) const { return fits_[set]; }
  // Whether the model can be loaded while the models of `beside` are loaded; `beside` does not contain it.
  bool is_loadable(std::size_t model, Set beside) const { return loadable_[model][beside]; }
  double load_seconds(std::size_t model) const { return models_[model].load_time.seconds(); }

 private:
  const std::vector<SimulatedModel>& models_;
  std::vector<char> fits_;
  std::vector<std::vector<char>> loadable_;
};

// For each set: the minimum over all its supersets.
void least_of_supersets(std::vector<double>& costs, std::size_t models) {
  for (std::size_t m = 0; m < models; ++m)
    for (Set set = 0; set < costs.size(); ++set)
      if (!Sets::has(set, m)) costs[set] = std::min(costs[set], costs[Sets::with(set, m)]);
}

// For each set: the minimum over all its subsets.
void least_of_subsets(std::vector<double>& costs, std::size_t models) {
  for (std::size_t m = 0; m < models; ++m)
    for (Set set = 0; set < costs.size(); ++set)
      if (Sets::has(set, m)) costs[set] = std::min(costs[set], costs[Sets::without(set, m)]);
}

}  // namespace

// least[set]: minimal cost of having served all requests so far, with exactly this set loaded now. Eviction
// costs nothing, so it can wait until memory is needed.
double least_reload_seconds(const std::vector<SimulatedModel>& models, const std::vector<std::size_t>& trace,
                            AvailableMemory available) {
  const Sets sets(models, available);
  std::vector<double> least(sets.count(), kNever), before;
  least[0] = 0;
  double first_loads = 0;
  std::vector<bool> was_loaded(models.size());
  for (const std::size_t model : trace) {
    if (!was_loaded[model]) first_loads += sets.load_seconds(model);
    was_loaded[model] = true;
    before = least;
    for (Set set = 0; set < sets.count(); ++set)
      if (Sets::has(set, model)) before[set] = kNever;
    least_of_supersets(before, sets.models());
    for (Set set = 0; set < sets.count(); ++set) {
      if (!Sets::has(set, model))
        least[set] = kNever;
      else if (const Set others = Sets::without(set, model); sets.is_loadable(model, others))
        least[set] = std::min(least[set], before[others] + sets.load_seconds(model));
    }
  }
  return *std::min_element(least.begin(), least.end()) - first_loads;
}

double least_seconds_a_request(const std::vector<SimulatedModel>& models, const std::vector<double>& share,
                               AvailableMemory available) {
  const Sets sets(models, available);
  std::vector<double> ahead(sets.count()), after_load, next;
  for (int round = 0; round < kMostRounds; ++round) {
    next.assign(sets.count(), 0);
    for (std::size_t m = 0; m < sets.models(); ++m) {
      after_load.assign(sets.count(), kNever);
      for (Set set = 0; set < sets.count(); ++set)
        if (!Sets::has(set, m) && sets.is_loadable(m, set)) after_load[set] = ahead[Sets::with(set, m)];
      least_of_subsets(after_load, sets.models());
      for (Set set = 0; set < sets.count(); ++set)
        next[set] += share[m] * (Sets::has(set, m) ? ahead[set] : after_load[set] + sets.load_seconds(m));
    }
    double lowest = kNever, highest = -kNever;
    for (Set set = 0; set < sets.count(); ++set) {
      if (!sets.fits(set)) continue;
      lowest = std::min(lowest, next[set] - ahead[set]);
      highest = std::max(highest, next[set] - ahead[set]);
    }
    if (highest - lowest <= kSmallEnough * std::max(highest, kNanosecond)) return (lowest + highest) / 2;
    const double of_none = next[0];
    for (Set set = 0; set < sets.count(); ++set) ahead[set] = next[set] - of_none;
  }
  return kNever;
}

}  // namespace headroom::bench
