// Compares the eviction policy with every possible choice, and with LRU on traces.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "pool/eviction_policy.h"

namespace headroom::pool {
namespace {

Bytes sum_of(const std::vector<std::size_t>& chosen, const std::vector<Resident>& residents) {
  Bytes sum;
  for (const std::size_t i : chosen) sum += residents[i].size;
  return sum;
}

TEST(EvictionPolicy, EvictsNothingWhenNothingIsNeeded) {
  EvictionPolicy policy;
  EXPECT_TRUE(policy.choose({{0, mebibytes(10)}}, {}).empty());
  EXPECT_TRUE(policy.choose({{0, mebibytes(10)}}, {-5}).empty());
  EXPECT_TRUE(policy.choose({}, mebibytes(1)).empty());
}

TEST(EvictionPolicy, EvictsNothingWhenAllModelsFreeTooLittle) {
  EvictionPolicy policy;
  EXPECT_TRUE(policy.choose({{0, mebibytes(10)}, {1, mebibytes(10)}}, mebibytes(21)).empty());
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(10)}}, mebibytes(20)).size(), 2u);
}

TEST(EvictionPolicy, KeepsTheModelThatLoadsSlowly) {
  EvictionPolicy policy;
  for (std::size_t model : {0u, 1u}) policy.requested(model);
  policy.loaded(0, {500'000'000});
  policy.loaded(1, {5'000'000});
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(10)}}, mebibytes(1)),
            std::vector<std::size_t>{1});
}

TEST(EvictionPolicy, KeepsTheModelThatIsUsedOften) {
  EvictionPolicy policy;
  for (int i = 0; i < 9; ++i) policy.requested(0);
  policy.requested(1);
  for (std::size_t model : {0u, 1u}) policy.loaded(model, {5'000'000});
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(10)}}, mebibytes(1)),
            std::vector<std::size_t>{1});
}

// Both models will be requested again soon, and each would be loaded once. So the policy evicts the one
// that loads fast, although its uses × seconds are twice those of the other.
TEST(EvictionPolicy, PrefersLoadTimeWhenBothModelsWillBeRequestedSoon) {
  EvictionPolicy policy;
  for (int i = 0; i < 400; ++i) policy.requested(i % 5 == 0 ? 1 : 0);
  policy.loaded(0, {10'000'000});
  policy.loaded(1, {20'000'000});
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(10)}}, mebibytes(1)),
            std::vector<std::size_t>{0});
  // Within eight requests the first is requested almost surely, the other with probability 1 − exp(−8/5).
  EXPECT_NEAR(policy.worth(0), 0.010, 0.0001);
  EXPECT_NEAR(policy.worth(1), 0.016, 0.0002);
}

TEST(EvictionPolicy, EvictsTheLargerOfTwoEquallyWorthModels) {
  EvictionPolicy policy;
  for (std::size_t model : {0u, 1u}) {
    policy.requested(model);
    policy.loaded(model, {5'000'000});
  }
  // Their worth differs only by the age of one request. The first is a tenth of the size of the second.
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(100)}}, mebibytes(5)),
            std::vector<std::size_t>{0});  // either frees enough; the older one is worth slightly less
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(100)}}, mebibytes(50)),
            std::vector<std::size_t>{1});
}

TEST(EvictionPolicy, ForgetsOldUses) {
  EvictionPolicy policy;
  for (int i = 0; i < 1000; ++i) policy.requested(0);
  for (std::size_t model : {0u, 1u}) policy.loaded(model, {5'000'000});
  // 1,000 uses are about 185 aged ones; ten half-lives later they are less than one.
  for (int i = 0; i < static_cast<int>(10 * EvictionPolicy::kHalfLife); ++i) policy.requested(2);
  policy.requested(1);
  EXPECT_EQ(policy.choose({{0, mebibytes(10)}, {1, mebibytes(10)}}, mebibytes(1)),
            std::vector<std::size_t>{0});
}

TEST(EvictionPolicy, LeastRecentlyUsedUsesOnlyTheOrderOfUse) {
  EvictionPolicy policy(Eviction::least_recently_used);
  for (std::size_t model : {2u, 0u, 1u}) policy.requested(model);
  policy.loaded(2, {5'000'000'000});
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

}  // namespace
}  // namespace headroom::pool
