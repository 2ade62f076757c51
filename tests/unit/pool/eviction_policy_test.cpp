// Compares the eviction policy with every possible choice, and with the optimum and LRU on a trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "../../../benchmarks/model_pool_optimum.h"
#include "../../../benchmarks/model_pool_simulation.h"
#include "../../../benchmarks/model_pool_traces.h"
#include "pool/eviction_policy.h"
#include "support/test_support.h"

namespace headroom::pool {
namespace {

Bytes sum_of(const std::vector<std::size_t>& chosen, const std::vector<Resident>& residents) {
  Bytes sum;
  for (const std::size_t i : chosen) sum += residents[i].size;
  return sum;
}

constexpr Nanoseconds kFast{5'000'000}, kSlow{500'000'000};

TEST(EvictionPolicy, EvictsNothingIfThatDoesNotHelp) {
  EvictionPolicy policy;
  EXPECT_TRUE(policy.choose({{0, mebibytes(10)}}, {}).empty());
  EXPECT_TRUE(policy.choose({{0, mebibytes(10)}}, {-5}).empty());
  EXPECT_TRUE(policy.choose({}, mebibytes(1)).empty());
  EXPECT_TRUE(policy.choose({{0, mebibytes(10)}, {1, mebibytes(10)}}, mebibytes(21)).empty());
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(10)}}, mebibytes(20)).size(), 2u);
}

// Two models of 10 MiB, of which one must go.
TEST(EvictionPolicy, KeepsTheModelThatCostsMore) {
  struct Case {
    const char* why;
    std::vector<std::size_t> requests;
    Nanoseconds load_times[2];
    std::size_t evicted;
  };
  std::vector<std::size_t> old(1000, 0), every_fifth;
  // 1,000 uses are about 185 aged ones; ten half-lives later they are less than one.
  old.resize(old.size() + static_cast<std::size_t>(10 * EvictionPolicy::kHalfLife), 2);
  old.push_back(1);
  for (int i = 0; i < 400; ++i) every_fifth.push_back(i % 5 == 0 ? 1 : 0);
  for (const Case& one :
       {Case{"loads slowly", {0, 1}, {kSlow, kFast}, 1},
        Case{"is used often", {0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, {kFast, kFast}, 1},
        // Both will be requested again soon, and each would be loaded once. So the policy evicts the one that
        // loads fast, although its uses × seconds are twice those of the other.
        Case{"loads slowly, and both are used soon", every_fifth, {{10'000'000}, {20'000'000}}, 0},
        Case{"was not used long ago", old, {kFast, kFast}, 0}}) {
    EvictionPolicy policy;
    for (const std::size_t model : one.requests) policy.requested(model);
    for (const std::size_t model : {0u, 1u}) policy.loaded(model, one.load_times[model]);
    EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(10)}}, mebibytes(1)),
              std::vector<std::size_t>{one.evicted})
        << "keeps the model that " << one.why;
  }
}

TEST(EvictionPolicy, EvictsTheLargerOfTwoEquallyWorthModels) {
  EvictionPolicy policy;
  for (std::size_t model : {0u, 1u}) {
    policy.requested(model);
    policy.loaded(model, kFast);
  }
  // Their worth differs only by the age of one request. The first is a tenth of the size of the second.
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(100)}}, mebibytes(5)),
            std::vector<std::size_t>{0});  // either frees enough; the older one is worth slightly less
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(100)}}, mebibytes(50)),
            std::vector<std::size_t>{1});
}

TEST(EvictionPolicy, LeastRecentlyUsedUsesOnlyTheOrderOfUse) {
  EvictionPolicy policy(Eviction::least_recently_used);
  for (std::size_t model : {2u, 0u, 1u}) policy.requested(model);
  policy.loaded(2, kSlow);
  const std::vector<Resident> residents{{0, mebibytes(10)}, {1, mebibytes(10)}, {2, mebibytes(10)}};
  EXPECT_EQ(policy.choose(residents, mebibytes(15)), (std::vector<std::size_t>{2, 0}));
}

// Compares random sets with all 2^n choices. The choice must free enough, contain nothing unnecessary, and
// be worth at most twice the optimum.
TEST(EvictionPolicy, IsAtMostTwiceTheOptimum) {
  std::mt19937 random(7);
  const auto any = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  int exact = 0;
  constexpr int kSets = 2000;
  for (int set = 0; set < kSets; ++set) {
    EvictionPolicy policy;
    const auto count = static_cast<std::size_t>(any(1, 9));
    std::vector<Resident> residents;
    for (std::size_t m = 0; m < count; ++m) {
      residents.push_back({m, mebibytes(any(1, 100))});
      policy.loaded(m, {any(1, 1000) * 1'000'000LL});
    }
    for (int i = any(0, 60); i > 0; --i) policy.requested(static_cast<std::size_t>(any(0, 8)));
    const Bytes needed = mebibytes(any(1, 300));
    const auto chosen = policy.choose(residents, needed);
    double least = -1;
    for (unsigned mask = 1; mask < (1u << count); ++mask) {
      Bytes size;
      double worth = 0;
      for (std::size_t i = 0; i < count; ++i)
        if ((mask >> i & 1u) != 0) {
          size += residents[i].size;
          worth += policy.worth(i);
        }
      if (size >= needed && (least < 0 || worth < least)) least = worth;
    }
    if (least < 0) {
      EXPECT_TRUE(chosen.empty());
      continue;
    }
    ASSERT_FALSE(chosen.empty());
    EXPECT_EQ(std::set<std::size_t>(chosen.begin(), chosen.end()).size(), chosen.size());
    EXPECT_GE(sum_of(chosen, residents), needed);
    double worth = 0;
    for (const std::size_t i : chosen) {
      worth += policy.worth(i);
      EXPECT_LT(sum_of(chosen, residents) - residents[i].size, needed) << "evicted unnecessarily";
    }
    EXPECT_LE(worth, 2 * least * (1 + 1e-12));
    exact += worth <= least * (1 + 1e-12) ? 1 : 0;
  }
  EXPECT_GT(exact, kSets / 2);
}

// Simulated requests without a clock, so the result is the same on every machine
// (benchmarks/results/model_pool.md).
TEST(EvictionPolicy, IsNearTheOptimumWhenSmallModelsAreRequestedMost) {
  if (headroom::test::kIsSlowBuild) GTEST_SKIP() << headroom::test::kOnlyInPlainBuilds;
  std::vector<bench::SimulatedModel> models;
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
    models.push_back({{load_ms * 1'000'000LL}, {1'000'000}, mebibytes(mib), mebibytes(mib)});
  std::vector<std::size_t> by_size(models.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  const Bytes budget = mebibytes(51);
  const auto trace = bench::make_trace("small_often", by_size, 4000, 1);
  std::vector<double> share(models.size());
  for (const std::size_t asked : trace) share[asked] += 1.0 / static_cast<double>(trace.size());
  const auto seconds = [&](Eviction eviction) {
    return bench::simulate_pool(models, trace, budget, {}, {}, 1, eviction).reload_seconds;
  };
  const double pool = seconds(Eviction::by_cost);
  EXPECT_GE(pool, bench::least_reload_seconds(models, trace, {budget}));
  EXPECT_LT(pool, 1.05 * bench::least_seconds_a_request(models, share, {budget}) * 4000);
  EXPECT_LT(pool, 0.8 * seconds(Eviction::least_recently_used));
}

}  // namespace
}  // namespace headroom::pool
