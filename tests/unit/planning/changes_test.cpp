#include <gmock/gmock.h>

#include <algorithm>

#include "planning/changes.h"
#include "random_budget.h"

namespace headroom::planning {
namespace {

using test::component;
using testing::HasSubstr;

Budget what_if_budget() {
  Budget budget;
  budget.name = "b.toml";
  budget.components = {component("camera", 10, 10), component("yolo.v8", 40, 30), component("tracker", 5, 5)};
  budget.components[0].need.frames = {{1920, 1080, 3, 1, 10}};
  budget.components[1].needs = {"camera"};
  budget.components[2].after = {"camera"};
  BudgetVariant int8;
  int8.settings = {{"precision", "int8"}};
  int8.need = component("", 20, 15).need;
  budget.components[1].variants = {int8};
  return budget;
}

TEST(WhatIf, AppliesEachChange) {
  const auto changed = [](const char* change) {
    auto budget = with_change(what_if_budget(), change);
    EXPECT_TRUE(budget) << change << ": " << budget.error().sentence();
    return *budget;
  };
  EXPECT_EQ(changed("yolo.v8.precision=int8").components[1].need.run_peak, Bytes{15});
  EXPECT_EQ(changed("YOLO.V8.precision = INT8").components[1].settings.at("precision"), "int8");
  EXPECT_EQ(changed("tracker.memory=1KiB").components[2].need.load_peak, kibibytes(1));
  EXPECT_EQ(changed("yolo.v8.load_peak=1KiB").components[1].need.run_peak, Bytes{30});
  EXPECT_EQ(changed("camera.frames=640x480").components[0].need.frame_bytes(), Bytes{640 * 480 * 3 * 10});
  EXPECT_EQ(changed("camera.frame_count=2").components[0].need.frame_bytes(), Bytes{1920 * 1080 * 3 * 2});
  EXPECT_TRUE(changed("lazy=tracker").components[2].is_lazy);
  EXPECT_EQ(changed("tracker.value=9").components[2].value, 9);
  EXPECT_EQ(changed("tracker.group=x").components[2].group, "x");
  Budget equals = what_if_budget();
  equals.components[2].name = "tracker k=3.1";
  EXPECT_EQ(with_change(equals, "tracker k=3.1.memory=1KiB")->components[2].need.run_peak, kibibytes(1));
  EXPECT_TRUE(with_change(equals, "lazy = tracker k=3.1")->components[2].is_lazy);
  const Budget without = changed("drop=camera");  // yolo.v8 needs it; the tracker only starts after it
  ASSERT_EQ(without.components.size(), 1U);
  EXPECT_EQ(without.components[0].name, "tracker");
  EXPECT_TRUE(without.components[0].after.empty());
}

// The device's rows are used only if the budget never had a system row, even a dropped one.
TEST(WhatIf, DroppingTheSystemRowAddsNoOther) {
  Budget budget = what_if_budget();
  budget.device.system = budget.device.desktop = {7};
  budget.components[2].is_system = true;
  const auto changed = with_change(budget, "drop=tracker");
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->device.system, Bytes{});
  EXPECT_EQ(changed->device.desktop, Bytes{});
}

TEST(WhatIf, ReportsInvalidChanges) {
  for (const auto& [change, error] : std::vector<std::pair<std::string, std::string>>{
           {"camera", "missing value"},
           {"camera=1GB", "no field in 'camera'"},
           {"drop=camra", "did you mean 'camera'?"},
           {"camra.memory=1GB", "did you mean 'camera'?"},
           {"camera.memroy=1GB", "did you mean 'memory'?"},
           {"camera.memory=1", "write a size such as 300MB"},
           {"camera.memory=-1GB", "invalid --what-if"},
           {"tracker.frames=640x480", "has no frames in the budget"},
           {"camera.frames=big", "invalid resolution 'big'"},
           {"camera.frame_count=0", "invalid count"},
           {"yolo.v8.precision=fp8", "known: int8"},
           {"tracker.precision=int8", "[[component.variant]]"},
           {"tracker.value=nan", "invalid value"},
           {"tracker.memory=9000000TB", "larger than any memory"},
           {"tracker.run_mean=1KiB", "run_mean is above run_peak"},
           {"lazy=camera", "lazy and not loaded at the start"},
       })
    EXPECT_THAT(with_change(what_if_budget(), change).error().sentence(), HasSubstr(error)) << change;
}

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

TEST(Advice, NeverLeavesOutABufferOrAnOverhead) {
  Budget budget;
  budget.name = "b.toml";
  budget.rules.buffer = {};
  budget.device.total = {100};
  budget.components = {component("yolo", 40, 40), component("ROS Buffers", 60, 60),
                       component("Misc/Overhead", 50, 50), component("frames", 0, 0)};
  budget.components[3].need.frames = {{8, 8, 1, 1, 1}};
  std::vector<std::string> proposed;
  for (const Advice& each : advice_for(*make_plan(budget)))
    if (each.kind != Advice::Kind::frames) proposed.push_back(each.words);
  EXPECT_EQ(proposed, std::vector<std::string>{"without yolo"});
  // The buffers of a component go with it.
  budget.components[1].needs = {"yolo"};
  proposed.clear();
  for (const Advice& each : advice_for(*make_plan(budget)))
    if (each.kind != Advice::Kind::frames) proposed.push_back(each.words);
  EXPECT_EQ(proposed, std::vector<std::string>{"without yolo and ROS Buffers, which needs it"});
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
  const auto order =
      std::ranges::find_if(advice, [](const Advice& each) { return each.kind == Advice::Kind::start_order; });
  ASSERT_NE(order, advice.end());
  EXPECT_EQ(order->saved, Bytes{20});
  const auto variant =
      std::ranges::find_if(advice, [](const Advice& each) { return each.kind == Advice::Kind::variant; });
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
