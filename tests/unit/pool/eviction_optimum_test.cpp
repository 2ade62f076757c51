// The optimum that benchmarks/results/model_pool.md refers to, and how near the pool's policy gets to it.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "../../../benchmarks/model_pool_optimum.h"
#include "../../../benchmarks/model_pool_simulation.h"
#include "../../../benchmarks/model_pool_traces.h"
#include "support/test_support.h"

namespace headroom::bench {
namespace {

constexpr std::int64_t kMillisecondInNs = 1'000'000, kMiB = 1 << 20;

SimulatedModel model(std::int64_t load_ms, std::int64_t bytes) {
  return {{load_ms * kMillisecondInNs}, {kMillisecondInNs}, {bytes}, {bytes}};
}

// Tries every choice of models to keep.
double least_of_all_choices(const std::vector<SimulatedModel>& models, const std::vector<std::size_t>& trace,
                            std::size_t at, unsigned loaded, unsigned ever_loaded, Bytes room) {
  if (at == trace.size()) return 0;
  const std::size_t asked = trace[at];
  if ((loaded >> asked & 1) != 0)
    return least_of_all_choices(models, trace, at + 1, loaded, ever_loaded, room);
  const double seconds = (ever_loaded >> asked & 1) != 0 ? models[asked].load_time.seconds() : 0;
  double least = 1e9;
  for (unsigned kept = loaded;; kept = (kept - 1) & loaded) {
    Bytes size;
    for (std::size_t m = 0; m < models.size(); ++m)
      if ((kept >> m & 1) != 0) size += models[m].run_peak;
    if (size + models[asked].load_peak <= room)
      least = std::min(least, seconds + least_of_all_choices(models, trace, at + 1, kept | 1U << asked,
                                                             ever_loaded | 1U << asked, room));
    if (kept == 0) return least;
  }
}

TEST(EvictionOptimum, EqualsTheMinimumOverAllChoices) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<SimulatedModel> models;
    for (int m = 0; m < 4; ++m) {
      models.push_back(model(10 + random() % 90, 10 + random() % 40));
      models.back().load_peak = models.back().run_peak + Bytes{static_cast<std::int64_t>(random() % 10)};
    }
    std::vector<std::size_t> trace;
    for (int i = 0; i < 12; ++i) trace.push_back(random() % models.size());
    EXPECT_NEAR(least_reload_seconds(models, trace, {{75}}),
                least_of_all_choices(models, trace, 0, 0, 0, {75}), 1e-9);
  }
}

// Only one of two models fits. Any policy loads on each request for the other one: 2 × ½ × ½.
TEST(EvictionOptimum, HandlesTwoModelsRequestedAtRandom) {
  const std::vector<SimulatedModel> models{model(30, 10), model(50, 10)};
  EXPECT_NEAR(least_seconds_a_request(models, {0.5, 0.5}, {{10}}), 0.25 * 0.030 + 0.25 * 0.050, 1e-7);
  EXPECT_NEAR(least_seconds_a_request(models, {0.5, 0.5}, {{20}}), 0, 1e-12);
}

// Two of three models fit. The optimum keeps the one that loads slowly and swaps the other two.
TEST(EvictionOptimum, KeepsTheModelThatLoadsSlowly) {
  const std::vector<SimulatedModel> models{model(500, 10), model(10, 10), model(10, 10)};
  const double third = 1.0 / 3;
  EXPECT_NEAR(least_seconds_a_request(models, {third, third, third}, {{20}}), 2 * third * 0.5 * 0.010, 1e-7);
}

// Simulated requests without a clock, so the result is the same on every machine.
TEST(EvictionOptimum, PoolIsNearTheOptimumWhenSmallModelsAreRequestedMost) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  std::vector<SimulatedModel> models;
  for (const auto& [load_ms, mib] : {std::pair{28, 10},
                                     {15, 9},
                                     {27, 13},
                                     {82, 13},
                                     {31, 13},
                                     {29, 18},
                                     {31, 19},
                                     {55, 21},
                                     {38, 28},
                                     {51, 28},
                                     {72, 30},
                                     {46, 34}})
    models.push_back(model(load_ms, mib * kMiB));
  std::vector<std::size_t> by_size(models.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  const Bytes budget{51 * kMiB};
  const auto trace = make_trace("small_often", by_size, 4000, 1);
  std::vector<double> share(models.size());
  for (const std::size_t asked : trace) share[asked] += 1.0 / static_cast<double>(trace.size());
  const auto seconds = [&](pool::Eviction eviction) {
    return simulate_pool(models, trace, budget, {}, {}, 1, eviction).reload_seconds;
  };
  const double pool = seconds(pool::Eviction::by_cost);
  EXPECT_GE(pool, least_reload_seconds(models, trace, {budget}));
  EXPECT_LT(pool, 1.05 * least_seconds_a_request(models, share, {budget}) * 4000);
  EXPECT_LT(pool, 0.8 * seconds(pool::Eviction::least_recently_used));
}

}  // namespace
}  // namespace headroom::bench
