#include "planning/advice.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "planning/what_if.h"
#include "random_budget.h"

namespace headroom::planning {
namespace {

using test::component;

TEST(Advice, NamesTheComponentsThatADropTakesAlong) {
  Budget budget;
  budget.name = "b.toml";
  budget.rules.buffer = {};
  budget.device.total = {100};
  budget.components = {component("camera", 60, 60), component("yolo", 30, 30), component("tracker", 30, 30),
                       component("map", 10, 10)};
  budget.components[1].needs = {"camera"};
  const auto words = [&] {
    for (const Advice& each : advice_for(*make_plan(budget)))
      if (each.kind == Advice::Kind::drop && each.component == "camera") return each.words;
    return std::string();
  };
  EXPECT_EQ(words(), "without camera and yolo, which needs it");
  budget.components[2].needs = {"yolo"};
  EXPECT_EQ(words(), "without camera and yolo, tracker, which need it");
}

TEST(Advice, SortsByVerdictThenByLeastLoss) {
  Budget budget;
  budget.name = "b.toml";
  budget.rules.buffer = {};
  budget.device.total = {100};
  budget.components = {component("a", 40, 40), component("b", 70, 30), component("c", 20, 20)};
  BudgetVariant smaller;
  smaller.settings = {{"precision", "int8"}};
  smaller.need = component("", 20, 20).need;
  smaller.need.origin = {FigureOrigin::Kind::measured, "runs/1"};
  budget.components[0].variants = {smaller};
  const auto plan = make_plan(budget);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->verdict, Verdict::does_not_fit);  // 110 while b is loaded
  const auto advice = advice_for(*plan);
  ASSERT_FALSE(advice.empty());
  for (std::size_t i = 1; i < advice.size(); ++i) EXPECT_LE(advice[i - 1].verdict, advice[i].verdict);
  const auto order = std::find_if(advice.begin(), advice.end(),
                                  [](const Advice& each) { return each.kind == Advice::Kind::start_order; });
  ASSERT_NE(order, advice.end());
  EXPECT_EQ(order->saved, Bytes{20});
  const auto variant = std::find_if(advice.begin(), advice.end(),
                                    [](const Advice& each) { return each.kind == Advice::Kind::variant; });
  ASSERT_NE(variant, advice.end());
  EXPECT_EQ(variant->saved, Bytes{20});
  EXPECT_EQ(variant->origin.source, "runs/1");
}

// The change saves as much as the advice promises.
TEST(Advice, EachSavesThePromisedBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    Budget budget = test::random_budget(random, {2 + random() % 6});
    const auto plan = make_plan(budget);
    ASSERT_TRUE(plan);
    for (const Advice& advice : advice_for(*plan)) {
      ASSERT_GT(advice.saved, Bytes{});
      if (advice.what_ifs.size() != 1) continue;
      const auto changed = with_change(budget, advice.what_ifs.front());
      ASSERT_TRUE(changed) << changed.error().sentence();
      const auto after = make_plan(*changed);
      ASSERT_TRUE(after);
      ASSERT_EQ(after->worst().total, plan->worst().total - advice.saved) << advice.what_ifs.front();
      ASSERT_EQ(after->verdict, advice.verdict);
    }
  }
}

}  // namespace
}  // namespace headroom::planning
