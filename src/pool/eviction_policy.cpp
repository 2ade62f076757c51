#include "pool/eviction_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headroom::pool {
namespace {

// Lower bounds, so that models that were never requested (only preloaded) or never loaded still compare by
// size.
constexpr double kMinProbability = 1e-9;
constexpr double kMinLoadSeconds = 1e-6;

double bytes_of(const Resident& resident) {
  return static_cast<double>(std::max<std::int64_t>(resident.size.count, 1));
}

// The indexes of the residents, lowest key first.
template <class Key>
std::vector<std::size_t> order_by(std::size_t residents, const Key& key) {
  std::vector<std::size_t> order(residents);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, key);
  return order;
}

// Returns the shortest prefix of `order` that frees `needed` bytes; empty if all of it frees too little.
std::vector<std::size_t> first_enough(const std::vector<std::size_t>& order,
                                      const std::vector<Resident>& residents, Bytes needed) {
  std::vector<std::size_t> chosen;
  Bytes sum;
  for (const std::size_t i : order) {
    if (sum >= needed) break;
    chosen.push_back(i);
    sum += residents[i].size;
  }
  return sum >= needed ? chosen : std::vector<std::size_t>{};
}

// Removes residents that are no longer needed after the last pick, beginning with the highest worth.
std::vector<std::size_t> drop_unneeded(std::vector<std::size_t> chosen,
                                       const std::vector<Resident>& residents,
                                       const std::vector<double>& worths, Bytes needed) {
  Bytes sum;
  for (const std::size_t i : chosen) sum += residents[i].size;
  std::ranges::stable_sort(chosen, [&](std::size_t a, std::size_t b) { return worths[a] > worths[b]; });
  std::vector<std::size_t> kept;
  for (const std::size_t i : chosen) {
    if (sum - residents[i].size >= needed)
      sum = sum - residents[i].size;
    else
      kept.push_back(i);
  }
  return kept;
}

}  // namespace

EvictionPolicy::ModelHistory& EvictionPolicy::history(std::size_t model) {
  if (model >= models_.size()) models_.resize(model + 1);
  return models_[model];
}

void EvictionPolicy::requested(std::size_t model) {
  ++requests_;
  aged_requests_ = 1 + aged_requests_ * std::exp2(-1 / kHalfLife);
  ModelHistory& entry = history(model);
  entry.uses = 1 + entry.uses * std::exp2(-static_cast<double>(requests_ - entry.at) / kHalfLife);
  entry.at = requests_;
}

void EvictionPolicy::loaded(std::size_t model, Nanoseconds took) {
  ModelHistory& entry = history(model);
  const std::int64_t before = entry.reload_time.count,
                     part = std::exchange(entry.is_reloaded, before > 0) ? 4 : 2;
  entry.reload_time = before == 0 ? took : Nanoseconds{before + (took.count - before) / part};
}

Nanoseconds EvictionPolicy::reload_time(std::size_t model) const {
  return model < models_.size() ? models_[model].reload_time : Nanoseconds{};
}

double EvictionPolicy::worth(std::size_t model) const {
  if (model >= models_.size()) return kMinProbability * kMinLoadSeconds;
  const ModelHistory& entry = models_[model];
  const double uses = entry.uses * std::exp2(-static_cast<double>(requests_ - entry.at) / kHalfLife);
  const double likely = -std::expm1(-kHorizon * uses / std::max(aged_requests_, 1.0));
  return std::max(likely, kMinProbability) * std::max(entry.reload_time.seconds(), kMinLoadSeconds);
}

std::vector<std::size_t> EvictionPolicy::choose(const std::vector<Resident>& residents, Bytes needed) const {
  if (needed.count <= 0) return {};
  return kind_ == Eviction::by_cost ? least_worth(residents, needed) : least_recently_used(residents, needed);
}

std::vector<std::size_t> EvictionPolicy::least_recently_used(const std::vector<Resident>& residents,
                                                             Bytes needed) const {
  const auto last_use = [&](std::size_t i) {
    return residents[i].model < models_.size() ? models_[residents[i].model].at : 0;
  };
  return first_enough(order_by(residents.size(), last_use), residents, needed);
}

// Chooses residents of the least total worth that free enough bytes: a minimum knapsack, solved with the
// greedy algorithm of Csirik, Frenk, Labbé and Zhang (1991).
//
// Residents are visited by worth per byte, lowest first. If a resident is smaller than the missing bytes,
// it joins the small ones. If it covers them, it completes a candidate: itself with all small ones before
// it. The next resident is then tried without it. The best candidate is at most twice the optimum.
std::vector<std::size_t> EvictionPolicy::least_worth(const std::vector<Resident>& residents,
                                                     Bytes needed) const {
  std::vector<double> worths;
  worths.reserve(residents.size());
  for (const Resident& resident : residents) worths.push_back(worth(resident.model));
  const auto worth_per_byte = [&](std::size_t i) { return worths[i] / bytes_of(residents[i]); };
  std::vector<std::size_t> small, best;
  double small_worth = 0, least = 0;
  Bytes missing = needed;
  for (const std::size_t i : order_by(residents.size(), worth_per_byte)) {
    if (residents[i].size < missing) {
      small.push_back(i);
      small_worth += worths[i];
      missing = missing - residents[i].size;
    } else if (best.empty() || small_worth + worths[i] < least) {
      best = small;
      best.push_back(i);
      least = small_worth + worths[i];
    }
  }
  return drop_unneeded(std::move(best), residents, worths, needed);
}

}  // namespace headroom::pool
