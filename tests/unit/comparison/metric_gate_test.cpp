// How --fail-on judges a change between runs.
#include "comparison/gate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runs_of_a_model.h"

namespace headroom::comparison {
namespace {

using testing::AllOf;
using testing::Eq;
using testing::HasSubstr;
using testing::Not;

class Gate : public testing::Test {
 protected:
  Gate() {
    for (unsigned i = 0; i < 3; ++i) {
      a.add(1'000'000 + i * 500, 100 << 20, i);
      b.add(1'100'000 + i * 500, 120 << 20, 10 + i);
    }
  }
  std::vector<GateFinding> check(std::string_view rules) {
    auto parsed = parse_gate(rules);
    EXPECT_TRUE(parsed.has_value()) << parsed.error().sentence();
    auto found = check_gate(*parsed, compare_runs(a.side, b.side));
    EXPECT_FALSE(found.not_judged.has_value()) << found.not_judged->sentence();
    return found.findings;
  }
  void expect_one(std::string_view rules, bool is_breach, const testing::Matcher<std::string>& sentence) {
    const auto found = check(rules);
    ASSERT_EQ(found.size(), 1);
    EXPECT_EQ(found[0].is_breach, is_breach);
    EXPECT_THAT(found[0].sentence, sentence);
  }
  // Another model in the first run of a side.
  ModelResult& add_model(Runs& runs, const char* name) {
    ModelResult& other = others_.emplace_back(runs.results[0].models[0]);
    other.name = name;
    runs.side[0].models.push_back({&other, {}, ""});
    return other;
  }
  bool is_judged(std::string_view rules) {
    return !check_gate(*parse_gate(rules), compare_runs(a.side, b.side)).not_judged.has_value();
  }
  Runs a, b;

 private:
  std::deque<ModelResult> others_;
};

TEST_F(Gate, NamesTheBreach) {
  const auto found = check("run_peak>+5%, latency>+20%,fps<-5%");
  ASSERT_EQ(found.size(), 2);
  EXPECT_TRUE(found[0].is_breach);
  EXPECT_EQ(found[0].sentence,
            "run_peak of det went from 100.0 MiB to 120.0 MiB (+20.0 %); --fail-on 'run_peak>+5%' does not "
            "allow it");
  EXPECT_THAT(found[1].sentence, HasSubstr("'fps<-5%'"));
}

TEST_F(Gate, AcceptsChangesAndValuesWithUnits) {
  EXPECT_EQ(check("run_peak>+10MiB").size(), 1);
  EXPECT_EQ(check("run_peak>+30MiB").size(), 0);
  EXPECT_EQ(check("run_peak>110MiB").size(), 1);
  EXPECT_EQ(check("latency>+50us").size(), 1);
  EXPECT_EQ(check("p99>2ms").size(), 0);
  EXPECT_EQ(check("det:p50>1ms").size(), 1);
}

TEST_F(Gate, UncertainChangeIsNotABreach) {
  Runs before, after;
  for (unsigned i = 0; i < 3; ++i) {
    before.add(1'000'000 + i * 100'000, 100 << 20, i);
    after.add(1'020'000 + i * 100'000, 100 << 20, 10 + i);
  }
  auto found = check_gate(*parse_gate("latency>+1%"), compare_runs(before.side, after.side));
  ASSERT_EQ(found.findings.size(), 1);
  EXPECT_FALSE(found.has_breach());
  EXPECT_THAT(found.findings.front().sentence, HasSubstr("not failed"));
}

// One run per side: memory can be judged, and a limit of B's own value; a change of a time cannot.
TEST_F(Gate, TimesOfSingleRunsAreNotJudged) {
  const auto gate = [&](std::string_view rules) {
    return check_gate(*parse_gate(rules), compare_runs({a.side[0]}, {b.side[0]}));
  };
  for (const std::string_view rule : {"latency>+50%", "det:p99>+1ms", "fps<-5%", "load_peak>+1%,p50>+5%"}) {
    const auto found = gate(rule);
    ASSERT_TRUE(found.not_judged.has_value()) << rule;
    EXPECT_FALSE(found.has_breach()) << rule;
  }
  EXPECT_EQ(
      gate("fps<-5%").not_judged->sentence(),
      "cannot check --fail-on 'fps<-5%': a change of fps is not separable from noise with one run each; "
      "make three or more runs of each side: headroom bench --repeat 8");
  EXPECT_TRUE(gate("run_peak>+5%").has_breach());
  EXPECT_TRUE(gate("p99>+5%,run_peak>+5%").has_breach());
  EXPECT_TRUE(gate("p50>1ms").has_breach());
  EXPECT_FALSE(gate("p50>1ms").not_judged.has_value());
}

TEST_F(Gate, ModelThatFailsInSomeRunsFailsGate) {
  b.results[1].models[0].status = ModelStatus::oom;
  b.results[1].models[0].error = "the kernel killed it";
  expect_one("load_time>+5%", true, HasSubstr("the kernel killed it; 1 of 3 runs"));
}

TEST_F(Gate, ModelThatAlwaysFailsFailsGate) {
  for (Runs* runs : {&a, &b})
    for (BenchResult& result : runs->results) result.models[0].status = ModelStatus::oom;
  expect_one("run_peak>+5%", true, Eq("det failed in A and in B (oom)"));
}

// A model that failed before has no figures to compare with.
TEST_F(Gate, RepairedModelIsNotABreach) {
  for (BenchResult& result : a.results) result.models[0].status = ModelStatus::oom;
  expect_one("run_peak>+5%", false, HasSubstr("succeeded in B but failed in A"));
  // Its own value is known.
  EXPECT_EQ(check("run_peak>512MiB").size(), 1);
  const auto breach = check("run_peak>100MiB");
  ASSERT_EQ(breach.size(), 2);
  EXPECT_TRUE(breach[1].is_breach);
  EXPECT_EQ(breach[1].sentence,
            "run_peak of det is 120.0 MiB in B; --fail-on 'run_peak>100MiB' does not allow it");
}

// A new model has no earlier figure, but its value can be compared with the limit.
TEST_F(Gate, ValueLimitAppliesToNewModels) {
  add_model(b, "other").memory.run_peak = Bytes{900 << 20};
  expect_one("run_peak>512MiB", true,
             Eq("run_peak of other is 900.0 MiB in B; --fail-on 'run_peak>512MiB' does not allow it"));
  EXPECT_EQ(check("other:run_peak>512MiB").size(), 1);
  EXPECT_TRUE(check("other:run_peak>1GiB").empty());
  EXPECT_TRUE(check("run_peak>+50%").empty());
  EXPECT_FALSE(is_judged("other:run_peak>+5%"));
}

// It already failed in A.
TEST_F(Gate, RemovedModelThatFailedIsNotABreach) {
  ModelResult& other = add_model(a, "other");
  expect_one("run_peak>+50%", true, Eq("other succeeded in A and is missing in B"));
  other.status = ModelStatus::oom;
  expect_one("run_peak>+50%", false, Eq("other failed in A (oom) and is missing in B"));
}

TEST_F(Gate, NewModelThatFailsFailsGate) {
  add_model(b, "other").status = ModelStatus::crashed;
  expect_one("run_peak>+50%", true, Eq("other is new in B and failed (crashed)"));
}

TEST_F(Gate, GrowthFromZeroExceedsAnyPercentage) {
  for (BenchResult& result : a.results) result.models[0].memory.run_peak = Bytes{0};
  expect_one("run_peak>+500%", true, HasSubstr("went from 0 B to 120.0 MiB;"));
  EXPECT_TRUE(check("run_peak<-5%").empty());
}

// One model has the figure on both sides; another lacks it in B.
TEST_F(Gate, ReportsFigureMissingForOneModel) {
  std::vector<ModelResult> others(6);
  for (std::size_t i = 0; i < 6; ++i) {
    Runs& side = i < 3 ? a : b;
    ModelResult& first = side.results[i % 3].models[0];
    first.memory.cgroup_peak = mebibytes(90);
    others[i] = first;
    others[i].name = "other";
    if (i >= 3) others[i].memory.cgroup_peak.reset();
    side.side[i % 3].models.push_back({&others[i], {}, ""});
  }
  expect_one(
      "cgroup_peak>+5%", false,
      Eq("cgroup_peak of other was measured on one side only, so 'cgroup_peak>+5%' was not checked for it"));
  EXPECT_TRUE(check("run_peak>+50%").empty());
}

TEST_F(Gate, ReportsBreachAndRuleThatCannotBeJudged) {
  for (const std::string_view rules : {"run_peak>+5%,gpu_run_peak>+5%", "gpu_run_peak>+5%,run_peak>+5%"}) {
    const auto found = check_gate(*parse_gate(rules), compare_runs(a.side, b.side));
    EXPECT_TRUE(found.has_breach()) << rules;
    ASSERT_TRUE(found.not_judged.has_value()) << rules;
    EXPECT_THAT(found.not_judged->sentence(), HasSubstr("gpu_run_peak was not measured"));
  }
}

TEST(FigureGate, JudgesFiguresByName) {
  const std::vector<GatedFigure> figures{{"peak_bytes", 100 << 20, 120 << 20, 20 << 20, 20 << 20},
                                         {"cpu_percent", 20, 22, -1, 5},
                                         {"leaked_bytes", 0, 4096, 4096, 4096}};
  const auto words = [](const std::string&, double value) { return std::to_string(static_cast<int>(value)); };
  const auto check = [&](std::string_view rules) {
    auto parsed = parse_figure_gate(rules, figures);
    EXPECT_TRUE(parsed.has_value()) << parsed.error().sentence();
    return check_figure_gate(*parsed, figures, words);
  };
  const auto breach = check("peak_bytes>+5%, peak_bytes>+30MiB, peak_bytes>110MiB, leaked_bytes>+500%");
  ASSERT_EQ(breach.findings.size(), 3);
  EXPECT_TRUE(breach.findings[0].is_breach);
  EXPECT_THAT(breach.findings[0].sentence, HasSubstr("--fail-on 'peak_bytes>+5%'"));
  EXPECT_THAT(breach.findings[1].sentence, HasSubstr("is 125829120 in B"));
  EXPECT_THAT(breach.findings[2].sentence, HasSubstr("leaked_bytes went from 0 to 4096"));
  const auto noise = check("cpu_percent>+5%");
  ASSERT_EQ(noise.findings.size(), 1);
  EXPECT_FALSE(noise.has_breach());
  EXPECT_TRUE(check("cpu_percent>+2,cpu_percent<20").findings.empty());
  EXPECT_THAT(check("peak_byte>+5").not_judged->sentence(), HasSubstr("did you mean 'peak_bytes'?"));
  EXPECT_FALSE(check("peak_byte>+5").has_breach());
  const auto both = check("peak_byte>+5,peak_bytes>+5%");
  EXPECT_TRUE(both.not_judged.has_value());
  EXPECT_TRUE(both.has_breach());
  const auto error = [&](std::string_view rule) {
    return parse_figure_gate(rule, figures).error().sentence();
  };
  EXPECT_THAT(error("peak_bytes>+5"),
              AllOf(HasSubstr("'5' is not a percentage or a size"), HasSubstr("example: 'peak_bytes>+5%'")));
  EXPECT_THAT(error("cpu_percent>80%"), HasSubstr("needs a sign"));
  EXPECT_THAT(error(">5"), HasSubstr("a rule of --fail-on has no figure name"));
  // A substring of several names is not a name.
  EXPECT_THAT(check("bytes>1GiB").not_judged->sentence(), HasSubstr("; available figures: peak_bytes"));
  // The unit cannot be checked without a figure of that name.
  EXPECT_THAT(
      check("peak>1GiB").not_judged->sentence(),
      AllOf(HasSubstr("no common figure 'peak'; did you mean 'peak_bytes'?"), Not(HasSubstr("run_peak"))));
  EXPECT_THAT(check("percent>x,cpu>1").not_judged->sentence(), HasSubstr("did you mean 'cpu_percent'?"));
  EXPECT_THAT(check("nonsense>1GiB").not_judged->sentence(),
              HasSubstr("; available figures: peak_bytes, cpu_percent, leaked_bytes"));
}

TEST(ParseGate, ReportsErrorInOneSentence) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"", "empty"},
      {"run_peak", "no > or <"},
      {"runpeak>+5%", "did you mean 'run_peak'?"},
      {"nonsense>+5%", "unknown metric 'nonsense'"},
      {"peak>+5%", "did you mean 'run_peak'?"},
      {"p99>=+10%", ">= is not supported; use >"},
      {"run_peak>5%", "needs a sign"},
      {"run_peak>+5", "'5' is not a percentage or a size"},
      {"p99>+5", "'5' is not a percentage or a time"},
      {"fps<x", "'x' is not a percentage or a number"},
      {"run_peak>+5%,,p99>+1%", "empty"},
      {"run_peak>+-5%", "'-5%' is not"},
      {"run_peak>+nan%", "is not"}};
  for (const auto& [rules, words] : wrong) {
    const auto parsed = parse_gate(rules);
    ASSERT_FALSE(parsed.has_value()) << rules;
    EXPECT_THAT(parsed.error().sentence(), HasSubstr(words)) << rules;
    EXPECT_EQ(parsed.error().kind, ErrorKind::usage);
  }
}

}  // namespace
}  // namespace headroom::comparison
