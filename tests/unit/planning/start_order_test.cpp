#include "planning/start_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "random_budget.h"
#include "support/test_support.h"

namespace headroom::planning {
namespace {

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
  std::sort(order.begin(), order.end());
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

TEST(StartOrder, WithoutGroupsSortsByLoadPeakMinusRun) {
  Budget budget;
  budget.components = {test::component("small spike", 110, 100), test::component("large spike", 300, 50),
                       test::component("none", 20, 20)};
  const Occupancy occupancy(budget);
  EXPECT_EQ(best_start_order(occupancy, occupancy.all()), (std::vector<std::size_t>{1, 0, 2}));
  EXPECT_EQ(peak_of_start(occupancy, {1, 0, 2}), Bytes{300});
  EXPECT_EQ(peak_of_start(occupancy, given_start_order(occupancy)), Bytes{400});
}

TEST(StartOrder, SystemStartsFirst) {
  Budget budget;
  budget.components = {test::component("spike", 300, 50), test::component("system", 20, 20)};
  budget.components[1].is_system = true;
  const Occupancy occupancy(budget);
  EXPECT_EQ(given_start_order(occupancy), (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(best_start_order(occupancy, occupancy.all()), (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(peak_of_start(occupancy, {1, 0}), Bytes{320});
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
