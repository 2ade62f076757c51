#include "planning/verify.h"

#include <gmock/gmock.h>

#include "random_budget.h"

namespace headroom::planning {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

BenchResult run_with(std::int64_t joint, const char* source) {
  BenchResult run;
  run.parallel.emplace();
  for (const char* name : {"a", "b"}) {
    ModelResult model;
    model.name = name;
    model.memory.load_peak = Bytes{50};
    model.memory.run_peak = Bytes{90};
    run.parallel->together.push_back(model);
  }
  run.parallel->joint_peak = Bytes{joint};
  run.parallel->joint_peak_source = source;
  return run;
}

Budget sample_budget() {
  Budget budget;
  budget.name = "b.toml";
  for (const char* name : {"a", "b", "other"}) {
    budget.components.push_back(test::component(name, 40, 60));
    MemoryNeed& need = budget.components.back().need;
    need.shared_key = "onnxruntime";
    need.shared = {30};
  }
  return budget;
}

TEST(Verify, AllowsTwoPercentUnderAndFiveOver) {
  const auto holds = [](std::int64_t joint) {
    return verify_plan(sample_budget(), run_with(joint, "cgroup_v1"), "RUN")->holds;
  };
  EXPECT_TRUE(holds(120));   // as planned: 2 × 60
  EXPECT_TRUE(holds(122));   // 1.6 % under
  EXPECT_FALSE(holds(123));  // 2.4 % under
  EXPECT_TRUE(holds(115));   // 4.3 % over
  EXPECT_FALSE(holds(114));  // 5.3 % over
}

TEST(Verify, SharedPagesCountForSharesNotForGroups) {
  const auto by_group = verify_plan(sample_budget(), run_with(120, "cgroup_v2"), "RUN");
  ASSERT_TRUE(by_group);
  EXPECT_EQ(by_group->joint.planned, Bytes{120});
  EXPECT_THAT(by_group->left_out, ElementsAre("other"));
  ASSERT_EQ(by_group->components.size(), 2U);
  EXPECT_EQ(by_group->components[0].planned, Bytes{90});
  EXPECT_EQ(by_group->components[0].measured, Bytes{90});
  BenchResult shares = run_with(120, "pss_samples");
  EXPECT_EQ(verify_plan(sample_budget(), shares, "RUN")->joint.planned, Bytes{150});
  EXPECT_EQ(verify_plan(sample_budget(), shares, "RUN")->joint.measured, Bytes{120});
  shares.parallel->joint_resident_peak = Bytes{149};  // including the bench's share of code pages
  EXPECT_EQ(verify_plan(sample_budget(), shares, "RUN")->joint.measured, Bytes{149});
}

TEST(Verify, RejectsOtherModelsAndMissingJointPeak) {
  Budget budget = sample_budget();
  budget.components.erase(budget.components.begin());
  EXPECT_THAT(verify_plan(budget, run_with(1, "cgroup_v1"), "RUN").error().sentence(),
              HasSubstr("the run RUN has a model that the budget lacks: a"));
  EXPECT_THAT(verify_plan(budget, BenchResult{}, "RUN").error().sentence(), HasSubstr("--parallel"));
}

}  // namespace
}  // namespace headroom::planning
