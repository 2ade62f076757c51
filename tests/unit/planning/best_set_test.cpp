#include <gtest/gtest.h>

#include <algorithm>

#include "planning/best_set.h"
#include "random_budget.h"
#include "support/test_support.h"

namespace headroom::planning {
namespace {

// Tries every set.
double best_value_by_trying(const Budget& budget, const Occupancy& occupancy, Bytes capacity,
                            const BestSet& least) {
  double best = least.value;
  const std::size_t n = budget.components.size();
  for (std::size_t bits = 0; bits < (std::size_t{1} << n); ++bits) {
    std::vector<bool> set(n);
    double value = 0;
    bool is_allowed = true;
    for (std::size_t i = 0; i < n; ++i) {
      set[i] = (bits >> i & 1) != 0;
      if (set[i]) value += budget.components[i].value;
      if (!set[i] && is_kept(budget.components[i])) is_allowed = false;
    }
    for (std::size_t i = 0; i < n; ++i)
      for (const std::size_t needed : occupancy.needed(i))
        if (set[i] && !set[needed]) is_allowed = false;
    if (is_allowed && value > best && lowest_peak_of(occupancy, set, budget.start) <= capacity) best = value;
  }
  return best;
}

TEST(BestSet, NoFittingSetHasMoreValue) {
  std::mt19937 random(3);
  std::size_t some_left_out = 0;
  for (int i = 0; i < 2000; ++i) {
    Budget budget = test::random_budget(random, {2 + random() % 7, random() % 2 == 0, random() % 2 == 0});
    if (random() % 4 == 0) budget.start = StartMode::together;
    if (random() % 8 == 0) budget.start = StartMode::without_waiting;
    const Occupancy occupancy(budget);
    const Bytes capacity{static_cast<std::int64_t>(random() % 40)};
    const BestSet set = largest_set(budget, occupancy, capacity, budget.start);
    ASSERT_TRUE(set.is_proven);
    ASSERT_EQ(set.peak, lowest_peak_of(occupancy, set.members, budget.start));
    if (!set.required_fit) {
      ASSERT_GT(set.peak, capacity);
      continue;
    }
    ASSERT_LE(set.peak, capacity);
    for (std::size_t k = 0; k < set.members.size(); ++k)
      for (const std::size_t needed : occupancy.needed(k))
        ASSERT_TRUE(!set.members[k] || set.members[needed]);
    ASSERT_DOUBLE_EQ(set.value, best_value_by_trying(budget, occupancy, capacity, set)) << i;
    if (set.members != occupancy.all()) ++some_left_out;
  }
  EXPECT_GT(some_left_out, 500U);
}

TEST(BestSet, KeepsBuffersAndOverheads) {
  for (const char* name :
       {"ROS Buffers", "Misc/Overhead", "CUDA context", "kv_cache", "Safety margin", "reserve"}) {
    Budget budget;
    budget.components = {test::component("yolo", 30, 30), test::component("vlm", 60, 60),
                         test::component(name, 40, 40)};
    const BestSet set = largest_set(budget, Occupancy(budget), Bytes{100}, budget.start);
    EXPECT_EQ(set.members, (std::vector{true, false, true})) << name;
    // Buffers alone do not fit: then there is no such set.
    EXPECT_FALSE(largest_set(budget, Occupancy(budget), Bytes{30}, budget.start).required_fit) << name;
  }
  EXPECT_FALSE(is_buffer(test::component("Map Building", 1, 1)));
  EXPECT_FALSE(is_buffer(test::component("Buffering agent", 1, 1)));
  EXPECT_FALSE(is_buffer(test::component("camera", 0, 0)));
  BudgetComponent frames = test::component("camera", 0, 0);
  frames.need.frames = {{1920, 1080, 3, 1, 4}};
  EXPECT_TRUE(is_buffer(frames));
}

TEST(BestSet, ABufferGoesWithItsComponent) {
  Budget budget;
  budget.components = {test::component("yolo", 30, 30), test::component("yolo buffers", 30, 30),
                       test::component("vlm", 50, 50)};
  budget.components[1].needs = {"yolo"};
  budget.components[1].value = 0;
  budget.components[2].value = 2;
  const auto members = [&](std::int64_t capacity) {
    return largest_set(budget, Occupancy(budget), Bytes{capacity}, budget.start).members;
  };
  EXPECT_EQ(members(110), (std::vector{true, true, true}));
  EXPECT_EQ(members(100), (std::vector{false, false, true}));
  EXPECT_EQ(members(40), (std::vector{false, false, false}));
  budget.components[0].is_required = true;
  EXPECT_EQ(members(100), (std::vector{true, true, false}));
}

// A needed component without bytes and value must not break the sort order of the others.
TEST(BestSet, AFreeDependencyDoesNotReduceTheValue) {
  Budget budget;
  budget.components = {test::component("c", 10000, 10000), test::component("a", 18000, 18000),
                       test::component("z", 1, 1), test::component("b", 19000, 19000)};
  budget.components[0].value = 30;
  budget.components[1].value = 18;
  budget.components[2].value = 0;
  budget.components[2].group = "g";
  budget.components[3].value = 38;
  budget.components[3].needs = {"z"};
  const BestSet set = largest_set(budget, Occupancy(budget), {19100}, StartMode::in_order);
  EXPECT_TRUE(set.is_proven);
  EXPECT_DOUBLE_EQ(set.value, 38);
}

// The set is still maximal: no further component fits.
TEST(BestSet, AStoppedSearchIsNotProven) {
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    const Budget budget = test::random_budget(random, {8, false, false, false, false});
    const Occupancy occupancy(budget);
    const BestSet set = largest_set(budget, occupancy, {20}, budget.start, 1);
    if (!set.required_fit) continue;
    ASSERT_FALSE(set.is_proven);
    ASSERT_LE(set.peak, Bytes{20});
    for (std::size_t k = 0; k < set.members.size(); ++k) {
      if (set.members[k]) continue;
      std::vector<bool> larger = set.members;
      larger[k] = true;
      ASSERT_GT(lowest_peak_of(occupancy, larger, budget.start), Bytes{20});
    }
  }
}

// The limit counts work, not time, so the result is the same on every machine.
TEST(BestSet, StopsForTwoHundredComponentsUnproven) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  std::mt19937 random(9);
  Budget budget = test::random_budget(random, {200, true, true});
  for (BudgetComponent& component : budget.components) {
    component.is_required = false;
    component.value = 1 + static_cast<double>(random() % 100) / 10;
  }
  const Occupancy occupancy(budget);
  const BestSet set = largest_set(budget, occupancy, {150}, budget.start);
  EXPECT_FALSE(set.is_proven);
  EXPECT_LE(set.peak, Bytes{150});
  EXPECT_GT(set.value, 100);
}

TEST(BestSet, IncludesFittingComponentsWithoutValue) {
  Budget budget;
  budget.components = {test::component("a", 10, 10), test::component("b", 90, 90),
                       test::component("c", 10, 10)};
  budget.components[0].value = budget.components[2].value = 0;
  const BestSet set = largest_set(budget, Occupancy(budget), {100}, StartMode::in_order);
  EXPECT_EQ(set.members, (std::vector<bool>{true, true, false}));
  EXPECT_TRUE(set.is_proven);
}

bool keeps_dependencies(const Occupancy& occupancy, const std::vector<std::size_t>& order) {
  std::vector<bool> started(occupancy.size(), false);
  for (const std::size_t i : order) {
    for (const std::size_t predecessor : occupancy.predecessors(i))
      if (!started[predecessor]) return false;
    started[i] = true;
  }
  return true;
}

// Tries every order.
Bytes lowest_by_trying(const Occupancy& occupancy) {
  std::vector<std::size_t> order = given_start_order(occupancy);
  std::ranges::sort(order);
  Bytes lowest{1'000'000};
  do {
    if (keeps_dependencies(occupancy, order)) lowest = std::min(lowest, peak_of_start(occupancy, order));
  } while (std::next_permutation(order.begin(), order.end()));
  return lowest;
}

// The memory after the start.
std::vector<bool> started_of(const Occupancy& occupancy) {
  std::vector<bool> started = occupancy.all();
  for (std::size_t i = 0; i < started.size(); ++i) started[i] = !occupancy.is_lazy(i);
  return started;
}

TEST(StartOrder, NoOrderIsBetterWithGroupsAndDependencies) {
  std::mt19937 random(1);
  std::size_t improved = 0;
  for (int i = 0; i < test::repetitions(3000); ++i) {
    const Budget budget =
        test::random_budget(random, {2 + random() % 5, random() % 2 == 0, random() % 2 == 0});
    const Occupancy occupancy(budget);
    const auto best = best_start_order(occupancy, occupancy.all());
    ASSERT_EQ(best.size(), given_start_order(occupancy).size());
    ASSERT_TRUE(keeps_dependencies(occupancy, best));
    const Bytes lowest = lowest_by_trying(occupancy);
    ASSERT_EQ(peak_of_start(occupancy, best).count, lowest.count) << i;
    ASSERT_TRUE(can_start_within(occupancy, occupancy.all(), lowest));
    // One byte less is not enough, unless the peak is while running.
    const bool is_by_start = lowest > occupancy.at_peak(started_of(occupancy));
    ASSERT_FALSE(is_by_start && can_start_within(occupancy, occupancy.all(), lowest - Bytes{1}));
    if (peak_of_start(occupancy, best) < peak_of_start(occupancy, given_start_order(occupancy))) ++improved;
  }
  EXPECT_GT(improved, test::kIsSlowBuild ? 30U : 300U);  // else the test proves nothing
}

TEST(StartOrder, SortsByLoadPeakMinusRunAfterTheSystem) {
  Budget budget;
  budget.components = {test::component("small spike", 110, 100), test::component("large spike", 300, 50),
                       test::component("none", 20, 20), test::component("system", 20, 20)};
  budget.components[3].is_system = true;
  const Occupancy occupancy(budget);
  EXPECT_EQ(best_start_order(occupancy, occupancy.all()), (std::vector<std::size_t>{3, 1, 0, 2}));
  EXPECT_EQ(peak_of_start(occupancy, {3, 1, 0, 2}), Bytes{320});
  EXPECT_EQ(given_start_order(occupancy), (std::vector<std::size_t>{3, 0, 1, 2}));
  EXPECT_EQ(peak_of_start(occupancy, given_start_order(occupancy)), Bytes{420});
}

// The property that all algorithms rely on.
TEST(Occupancy, ALargerSetNeverNeedsLess) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const Budget budget = test::random_budget(random, {6});
    const Occupancy occupancy(budget);
    std::vector<bool> set(occupancy.size());
    for (std::size_t k = 0; k < set.size(); ++k) set[k] = random() % 2 == 0;
    std::vector<bool> larger = set;
    larger[random() % larger.size()] = true;
    ASSERT_LE(occupancy.at_peak(set), occupancy.at_peak(larger));
    for (const StartMode start : {StartMode::together, StartMode::without_waiting})
      ASSERT_LE(occupancy.at_start(set, start), occupancy.at_start(larger, start));
    const std::size_t loading = random() % larger.size();
    ASSERT_LE(occupancy.at_peak(set, loading), occupancy.at_peak(larger, loading));
  }
}

}  // namespace

}  // namespace headroom::planning
