#include "planning/what_if.h"

#include <gmock/gmock.h>

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
  const Budget without = changed("drop=camera");  // yolo.v8 needs it; the tracker only starts after it
  ASSERT_EQ(without.components.size(), 1U);
  EXPECT_EQ(without.components[0].name, "tracker");
  EXPECT_TRUE(without.components[0].after.empty());
}

TEST(WhatIf, AcceptsAnEqualsSignInAName) {
  Budget budget = what_if_budget();
  budget.components[2].name = "tracker k=3.1";
  const auto changed = with_change(budget, "tracker k=3.1.memory=1KiB");
  ASSERT_TRUE(changed) << changed.error().sentence();
  EXPECT_EQ(changed->components[2].need.run_peak, kibibytes(1));
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
  const auto sentence = [](const char* change) {
    const auto budget = with_change(what_if_budget(), change);
    return budget ? "(no error)" : budget.error().sentence();
  };
  EXPECT_THAT(sentence("camera"), HasSubstr("missing value"));
  EXPECT_THAT(sentence("camera=1GB"), HasSubstr("no field in 'camera'"));
  EXPECT_THAT(sentence("drop=camra"), HasSubstr("did you mean 'camera'?"));
  EXPECT_THAT(sentence("camra.memory=1GB"), HasSubstr("did you mean 'camera'?"));
  EXPECT_THAT(sentence("camera.memroy=1GB"), HasSubstr("did you mean 'memory'?"));
  EXPECT_THAT(sentence("camera.memory=1"), HasSubstr("write a size such as 300MB"));
  EXPECT_THAT(sentence("camera.memory=-1GB"), HasSubstr("invalid --what-if"));
  EXPECT_THAT(sentence("tracker.frames=640x480"), HasSubstr("has no frames in the budget"));
  EXPECT_THAT(sentence("camera.frames=big"), HasSubstr("invalid resolution 'big'"));
  EXPECT_THAT(sentence("camera.frame_count=0"), HasSubstr("invalid count"));
  EXPECT_THAT(sentence("yolo.v8.precision=fp8"), HasSubstr("known: int8"));
  EXPECT_THAT(sentence("tracker.precision=int8"), HasSubstr("[[component.variant]]"));
  EXPECT_THAT(sentence("tracker.value=nan"), HasSubstr("invalid value"));
  EXPECT_THAT(sentence("tracker.memory=9000000TB"), HasSubstr("larger than any memory"));
  EXPECT_THAT(sentence("tracker.run_mean=1KiB"), HasSubstr("run_mean is above run_peak"));
  EXPECT_THAT(sentence("lazy=camera"), HasSubstr("lazy and not loaded at the start"));
}

}  // namespace
}  // namespace headroom::planning
