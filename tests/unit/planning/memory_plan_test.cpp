#include <gmock/gmock.h>

#include <algorithm>

#include "planning/memory_plan.h"
#include "random_budget.h"

namespace headroom::planning {
namespace {

using test::component;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Budget budget_of(std::vector<BudgetComponent> components, std::int64_t total) {
  Budget budget;
  budget.name = "b.toml";
  budget.components = std::move(components);
  budget.device.total = {total};
  budget.rules.buffer = {};
  return budget;
}

MemoryPlan plan_of(const Budget& budget) {
  auto plan = make_plan(budget);
  EXPECT_TRUE(plan) << plan.error().sentence();
  return *plan;
}

TEST(MemoryPlan, VerdictDependsOnShareAndBuffer) {
  const auto verdict = [](std::int64_t used, std::int64_t buffer) {
    Budget budget = budget_of({component("a", used, used)}, 100);
    budget.rules.buffer = {buffer};
    return plan_of(budget).verdict;
  };
  EXPECT_EQ(verdict(75, 0), Verdict::healthy);
  EXPECT_EQ(verdict(76, 0), Verdict::tight);
  EXPECT_EQ(verdict(85, 0), Verdict::tight);
  EXPECT_EQ(verdict(86, 0), Verdict::risky);
  EXPECT_EQ(verdict(100, 0), Verdict::risky);
  EXPECT_EQ(verdict(101, 0), Verdict::does_not_fit);
  EXPECT_EQ(verdict(50, 51), Verdict::risky);
}

TEST(MemoryPlan, LoadPeakOfTheLastComponentIsTheWorstMoment) {
  BudgetComponent system = component("System", 10, 10);
  system.is_system = true;
  const MemoryPlan plan = plan_of(budget_of({system, component("a", 30, 30), component("b", 60, 20)}, 90));
  EXPECT_EQ(plan.running, Bytes{60});
  EXPECT_EQ(words_for(plan.moments.front(), plan.budget), "before the first component");
  EXPECT_EQ(words_for(plan.moments[1], plan.budget), "while a is loaded and 1 other runs");
  EXPECT_EQ(plan.worst().total, Bytes{100});
  EXPECT_EQ(words_for(plan.worst(), plan.budget), "while b is loaded and 2 others run");
  EXPECT_EQ(plan.verdict, Verdict::does_not_fit);
  EXPECT_EQ(plan.best_peak, Bytes{70});  // b before a
  EXPECT_THAT(plan.reasons, Contains(HasSubstr("another start order would need 30 B less")));
}

TEST(MemoryPlan, AGroupCountsItsLargestMemberWhileOthersRun) {
  BudgetComponent a = component("a", 10, 10), b = component("b", 50, 30), c = component("c", 20, 20);
  a.group = b.group = "detectors";
  const MemoryPlan plan = plan_of(budget_of({a, b, c}, 100));
  EXPECT_EQ(plan.running, Bytes{50});
  EXPECT_EQ(plan.worst().kind, PlanMoment::Kind::loading);
  EXPECT_EQ(plan.worst().total, Bytes{70});  // b's load peak and c; a is unloaded
}

TEST(MemoryPlan, LazyComponentsTakeTurns) {
  BudgetComponent a = component("a", 40, 40), b = component("b", 30, 30);
  a.is_lazy = b.is_lazy = true;
  const MemoryPlan plan = plan_of(budget_of({a, b, component("c", 10, 10)}, 100));
  EXPECT_EQ(plan.order, (std::vector<std::size_t>{2}));
  EXPECT_EQ(plan.running, Bytes{50});
  // A single lazy component takes no turns: its load peak adds to all others.
  a.need.load_peak = Bytes{70};
  const MemoryPlan alone = plan_of(budget_of({a, component("c", 10, 10)}, 100));
  EXPECT_EQ(alone.worst().total, Bytes{80});
}

TEST(MemoryPlan, CountsOneTransientBufferPerPipeline) {
  BudgetComponent a = component("a", 0, 10), b = component("b", 0, 10), c = component("c", 0, 10);
  a.need.transient = {5}, b.need.transient = {7}, c.need.transient = {3};
  a.pipeline = b.pipeline = "front";
  EXPECT_EQ(plan_of(budget_of({a, b, c}, 100)).running, Bytes{30 + 7 + 3});
  // A group member counts with its own buffer, not with that of a member that never runs with it.
  a = component("a", 50, 50), b = component("b", 20, 20);
  a.group = b.group = "turns";
  a.pipeline = b.pipeline = c.pipeline = "front";
  a.need.transient = {10}, b.need.transient = {40}, c.need.transient = {5};
  EXPECT_EQ(plan_of(budget_of({a, b, c}, 200)).running, Bytes{50 + 10 + 10});  // not a's 50 with b's buffer
  b.need.transient = {45};
  EXPECT_EQ(plan_of(budget_of({a, b, c}, 200)).running, Bytes{20 + 45 + 10});
}

// A control group's limit applies to its charged memory, the machine's limit to all pages. The machine's
// system is in no control group.
TEST(MemoryPlan, CountsSharedPagesOnceAndNotForAControlGroup) {
  BudgetComponent a = component("a", 10, 10), b = component("b", 10, 10);
  a.need.shared_key = b.need.shared_key = "onnxruntime 1.29.0";
  a.need.shared = {28}, b.need.shared = {30};
  Budget budget = budget_of({a, b}, 25);
  const MemoryPlan plan = plan_of(budget);
  EXPECT_EQ(plan.verdict, Verdict::does_not_fit);
  EXPECT_EQ(plan.worst().total, Bytes{50});
  EXPECT_EQ(plan.machine_peak, Bytes{50});
  EXPECT_EQ(plan.charged_peak, Bytes{20});
  budget.device.is_control_group = true;
  const MemoryPlan in_group = plan_of(budget);
  EXPECT_EQ(in_group.verdict, Verdict::tight);
  EXPECT_EQ(in_group.worst().total, Bytes{20});
  EXPECT_EQ(in_group.running, Bytes{20});
  EXPECT_EQ(in_group.machine_peak, Bytes{50});
  EXPECT_EQ(in_group.charged_peak, Bytes{20});
  budget.device.is_control_group = false;
  budget.device.system = {20};
  const MemoryPlan with_system = plan_of(budget);
  EXPECT_EQ(with_system.machine_peak, Bytes{70});
  EXPECT_EQ(with_system.charged_peak, Bytes{20});
  EXPECT_THAT(with_system.reasons, Contains(HasSubstr("is charged 20 B")));
}

TEST(MemoryPlan, StartingTogetherAddsTheLoadPeaks) {
  Budget budget = budget_of({component("a", 40, 10), component("b", 30, 50)}, 100);
  budget.start = StartMode::together;
  const MemoryPlan plan = plan_of(budget);
  EXPECT_EQ(plan.worst().total, Bytes{70});
  EXPECT_EQ(words_for(plan.worst(), budget), "while all are loaded at once");
  EXPECT_EQ(plan.unwaited_peak, Bytes{90});  // b runs while a is still loaded
  EXPECT_THAT(plan.reasons, Contains(HasSubstr("without waiting, the peak can be 90 B")));
  budget.start = StartMode::without_waiting;
  const MemoryPlan unwaited = plan_of(budget);
  EXPECT_EQ(unwaited.worst().total, Bytes{90});
  EXPECT_EQ(unwaited.unwaited_peak, std::nullopt);
}

TEST(MemoryPlan, SystemRowsOfTheBudgetReplaceThoseOfTheDevice) {
  Budget budget = budget_of({component("a", 10, 10)}, 100);
  budget.device.system = {20}, budget.device.desktop = {30};
  EXPECT_EQ(plan_of(budget).running, Bytes{60});
  budget.has_desktop = false;
  EXPECT_EQ(plan_of(budget).running, Bytes{30});
  budget.components[0].is_system = true;
  EXPECT_EQ(plan_of(budget).running, Bytes{10});
}

// The peak is the largest moment, and each moment is the sum of its parts.
TEST(MemoryPlan, MomentsAddUp) {
  std::mt19937 random(6);
  for (int i = 0; i < 1000; ++i) {
    Budget budget = test::random_budget(random, {1 + random() % 8});
    if (random() % 3 == 0) budget.start = StartMode::together;
    if (random() % 6 == 0) budget.start = StartMode::without_waiting;
    const MemoryPlan plan = plan_of(budget);
    for (const PlanMoment& moment : plan.moments) {
      ASSERT_EQ(sum_of(moment.shares), moment.total);
      ASSERT_LE(moment.total, plan.worst().total);
    }
    ASSERT_LE(plan.best_peak, plan.worst().total);
    ASSERT_LE(plan.charged_peak, plan.machine_peak);
    ASSERT_GE(plan.unwaited_peak.value_or(plan.worst().total), plan.worst().total);
    ASSERT_EQ(plan.available, plan.total - plan.worst().total);
  }
}

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
  EXPECT_THAT(make_plan(budget_of({component("a", 1, 1)}, 0)).error().sentence(), HasSubstr("--device"));
}

}  // namespace

}  // namespace headroom::planning
