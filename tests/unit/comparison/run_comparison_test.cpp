// What counts as a change between runs, and with which confidence: times, their spread, and false alarms.
#include "comparison/run_comparison.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "comparison/metric_change.h"
#include "comparison/metric_gate.h"
#include "monitoring/latency_summary.h"
#include "runs_of_a_model.h"
#include "support/test_support.h"

namespace headroom::comparison {
namespace {

using testing::HasSubstr;

TEST(RunMetrics, AlphasAddUpToFivePercent) {
  double sum = 0;
  double sum_of_runs = 0;
  for (const RunMetric& metric : run_metrics()) {
    sum += metric.alpha;
    sum_of_runs += metric.alpha_of_runs;
  }
  EXPECT_NEAR(sum, 0.05, 1e-12);
  EXPECT_NEAR(sum_of_runs, 0.05, 1e-12);
  EXPECT_EQ(find_run_metric("run_peak")->name, "run_peak");
  EXPECT_EQ(find_run_metric("no such"), nullptr);
}

TEST(CompareRuns, EqualRunsDoNotDiffer) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'010'000, (100 << 20) + (300 << 10), 2);  // 1 % and 300 KiB: normal variation between two runs
  const RunComparison found = compare_runs(a.side, b.side);
  ASSERT_EQ(found.models.size(), 1);
  EXPECT_FALSE(found.models[0].find("latency")->differs);
  EXPECT_FALSE(found.models[0].find("run_peak")->differs);
  EXPECT_FALSE(found.models[0].find("latency")->spread_was_measured);
  EXPECT_TRUE(found.facts.empty());
}

// Ten kept runs and a new one: the spread of the ten also applies to the new one.
TEST(CompareRuns, ManyRunsGiveSpreadForSingleRun) {
  Runs a, b;
  for (unsigned i = 0; i < 10; ++i) a.add(i % 2 == 0 ? 1'000'000 : 1'500'000, 100 << 20, i);
  b.add(1'550'000, 100 << 20, 30);
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
  EXPECT_TRUE(compare_runs({a.side.front()}, b.side).models[0].find("latency")->differs);
}

// The state of the machine differs from run to run.
TEST(CompareRuns, OneRunPerSideNeedsLargeLatencyChange) {
  Runs a, b;
  a.add(10'000'000, 100 << 20, 1);
  b.add(12'000'000, 100 << 20, 2);
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("p50")->differs);
  b.add(16'000'000, 100 << 20, 3);
  EXPECT_TRUE(compare_runs(a.side, {b.side.back()}).models[0].find("latency")->differs);
}

// Runs have one of two speeds. The three runs of each side are close together by chance.
TEST(CompareRuns, FewRunsOfSameSpeedAreNotAChange) {
  Runs a, b;
  for (unsigned i = 0; i < 3; ++i) {
    a.add(1'000'000 + i * 500, 100 << 20, i);
    b.add(1'040'000 + i * 500, 100 << 20, 10 + i);
  }
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
}

// A run that got two thirds of a core is slower. The model is not the cause.
TEST(CompareRuns, AllowsForARunThatWaitedForTheProcessor) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'400'000, 100 << 20, 2);
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
  a.results[0].models[0].cpu_percent = 98;
  b.results[0].models[0].cpu_percent = 60;
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
}

// If other programs used the processors, the comparison is imprecise, and the report must give the reason.
TEST(CompareRuns, WarnsOfDisturbedRuns) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'000'000, 100 << 20, 2);
  EXPECT_THAT(compare_runs(a.side, b.side).caveats, testing::IsEmpty());
  ComparedModel& model = b.side[0].models[0];
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < model.frames.size(); ++i) {
    if (i % 10 != 0) model.frames[i].inference.count *= 4;
    times.push_back(model.frames[i].inference.count);
  }
  b.results[0].models[0].inference = monitoring::summarise_latency(std::move(times));
  EXPECT_THAT(compare_runs(a.side, b.side).caveats,
              testing::ElementsAre(
                  HasSubstr("took 1.0 times as long as an undisturbed frame in A, and 4.0 times in B")));
}

// The errors kept of a run count like those of its frames. Otherwise the intervals of kept runs would be too
// narrow.
TEST(CompareRuns, KeptRunsHaveErrorsOfTheirFrames) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'030'000, 100 << 20, 2);
  const auto of_frames = compare_runs(a.side, b.side).models[0].find("p90")->high;
  for (Runs* runs : {&a, &b}) {
    ComparedModel& model = runs->side[0].models[0];
    for (const RunMetric& metric : run_metrics())
      if (const double error = sampling_error(metric, model); error > 0)
        model.sampling_errors[std::string(metric.name)] = error;
    model.disturbance = disturbance_of(model.figures());
    model.frames.clear();
  }
  EXPECT_NEAR(compare_runs(a.side, b.side).models[0].find("p90")->high, of_frames, 1e-9);
  EXPECT_THAT(a.side[0].models[0].sampling_errors, testing::Contains(testing::Key("fps")));
}

TEST(CompareRuns, RunOfOneFrameHasNoPercentiles) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'700'000, 100 << 20, 2);
  for (Runs* runs : {&a, &b}) {
    runs->side[0].models[0].frames.resize(1);
    std::vector<std::int64_t> time{runs->side[0].models[0].frames[0].inference.count};
    runs->results[0].models[0].inference = monitoring::summarise_latency(std::move(time));
  }
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("p99")->differs);
}

// Six models together have the false alarm rate of one.
TEST(CompareRuns, ModelsShareFalseAlarmRate) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'000'000, 100 << 20, 2);
  const double of_one = compare_runs(a.side, b.side).models[0].find("run_peak")->confidence;
  std::deque<ModelResult> more;
  for (Runs* runs : {&a, &b})
    for (int i = 0; i < 5; ++i) {
      more.push_back(runs->results[0].models[0]);
      more.back().name = "model" + std::to_string(i);
      runs->side[0].models.push_back({&more.back(), {}, ""});
    }
  const RunComparison six = compare_runs(a.side, b.side);
  ASSERT_EQ(six.models.size(), 6);
  for (const ModelComparison& model : six.models)
    EXPECT_NEAR(1 - model.find("run_peak")->confidence, (1 - of_one) / 6, 1e-12);
}

// The table, the verdict and the gate show the same figure.
TEST(CompareRuns, RatioMatchesShownValues) {
  Runs a, b;
  for (const int mebibytes : {60, 61, 90}) a.add(1'000'000, mebibytes << 20, 1);
  for (const int mebibytes : {48, 49, 50}) b.add(1'100'000, mebibytes << 20, 2);
  const RunComparison several = compare_runs(a.side, b.side);
  const RunComparison single = compare_runs({a.side[0], a.side[2]}, {b.side[0]});
  for (const RunComparison* found : {&several, &single})
    for (const MetricChange& change : found->models[0].metrics)
      EXPECT_NEAR(change.ratio, change.after / change.before, 1e-9) << change.metric->name;
}

// The fastest of three frames is compared with the frame of the same average rank in the other run.
TEST(CompareRuns, ComparesFewFramesAtTheSameRank) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1);
  b.add(1'000'000, 1 << 20, 2);
  for (int i = 0; i < 200; ++i) a.side[0].models[0].frames[i].inference = {1'000'000 + i * 10'000};
  auto& few = b.side[0].models[0].frames;
  few.resize(3);
  few[0].inference = {1'490'000};  // rank 50 of 200
  few[1].inference = {1'990'000};
  few[2].inference = {2'490'000};
  const RunComparison found = compare_runs(a.side, b.side);
  const MetricChange* latency = found.models[0].find("latency");
  EXPECT_NEAR(latency->ratio, 1, 1e-9);
  EXPECT_FALSE(latency->is_judged);
  EXPECT_THAT(found.caveats, testing::ElementsAre(HasSubstr("a run has only 3 frames")));
  few[0].inference = {0};  // zero: the frame was not measured
  EXPECT_EQ(compare_runs(a.side, b.side).models[0].find("latency"), nullptr);
}

// Kept runs have no frames. The 2nd percentile of 200 frames is not the fastest of 20 frames.
TEST(CompareRuns, ComparesKeptLatencyOnlyAtEqualFrameCount) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1);
  b.add(1'000'000, 1 << 20, 2);
  a.side[0].models[0].frames.clear();
  a.side[0].models[0].latency = 1'000'000;
  EXPECT_NE(compare_runs(a.side, b.side).models[0].find("latency"), nullptr);
  b.side[0].models[0].frames.resize(20);
  const RunComparison apart = compare_runs(a.side, b.side);
  EXPECT_EQ(apart.models[0].find("latency"), nullptr);
  EXPECT_THAT(apart.caveats, testing::ElementsAre(HasSubstr("different numbers of frames")));
  a.results[0].models[0].frames = 20;
  EXPECT_NE(compare_runs(a.side, b.side).models[0].find("latency"), nullptr);
}

// Only successful runs have figures.
TEST(CompareRuns, OmitsFiguresOfFailedRuns) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  a.add(1'000'000, 10 << 20, 2);
  b.add(1'000'000, 100 << 20, 3);
  a.results[1].models[0].status = ModelStatus::oom;
  a.results[1].models[0].error = "the kernel killed it";
  const RunComparison found = compare_runs(a.side, b.side);
  EXPECT_EQ(found.models[0].find("run_peak")->runs_before, 1);
  EXPECT_EQ(found.models[0].find("run_peak")->before, 100 << 20);
  EXPECT_TRUE(found.models[0].recovered());
  EXPECT_FALSE(found.models[0].fell());
  EXPECT_EQ(found.models[0].outcome_before.failed, 1);
  EXPECT_EQ(found.models[0].outcome_before.error, "the kernel killed it");
  b.results[0].models[0].status = ModelStatus::crashed;
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].metrics.empty());
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].fell());  // failed in all runs; in A it was one of two
}

TEST(CompareRuns, SeveralRunsFindSmallerChange) {
  Runs a, b;
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000 + i * 1000, 100 << 20, i);
    b.add(1'030'000 + i * 1000, 102 << 20, 10 + i);
  }
  const RunComparison found = compare_runs(a.side, b.side);
  const MetricChange* latency = found.models[0].find("latency");
  EXPECT_TRUE(latency->spread_was_measured);
  EXPECT_TRUE(latency->differs);
  EXPECT_TRUE(latency->is_worse());
  EXPECT_NEAR(latency->ratio, 1.03, 0.003);
  EXPECT_LT(latency->low, latency->ratio);
  EXPECT_GT(latency->high, latency->ratio);
  EXPECT_TRUE(found.models[0].find("run_peak")->differs);
  EXPECT_GT(*found.models[0].superiority, 0.99);
  // A single run per side cannot find it.
  const RunComparison single = compare_runs({a.side.front()}, {b.side.front()});
  EXPECT_FALSE(single.models[0].find("latency")->differs);
}

// The clock of the machine drifts slowly by 10 %. Only alternating runs can find a change of 3 %.
TEST(CompareRuns, PairsAlternatingRuns) {
  Runs a, b;
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000 + i * 25'000, 100 << 20, i);
    b.add(1'030'000 + i * 25'000 + i * 300, 100 << 20, 10 + i);
    a.results[i].started_at = fmt::format("2026-11-23T10:00:00.{}00Z", 2 * i);
    b.results[i].started_at = fmt::format("2026-11-23T10:00:00.{}00Z", 2 * i + 1);
  }
  const RunComparison found = compare_runs(a.side, b.side);
  EXPECT_TRUE(found.models[0].find("latency")->was_paired);
  EXPECT_TRUE(found.models[0].find("latency")->differs);
  // Alternating runs with another time zone in B.
  for (BenchResult& result : b.results) result.started_at.replace(11, 2, "05").replace(23, 1, "-05:00");
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("latency")->was_paired);
  // All of A first, then all of B.
  for (BenchResult& result : b.results) result.started_at.replace(11, 2, "11");
  const RunComparison behind = compare_runs(a.side, b.side);
  EXPECT_FALSE(behind.models[0].find("latency")->was_paired);
  EXPECT_FALSE(behind.models[0].find("latency")->differs);
}

// Makes every tenth frame of a run four times as long.
void lengthen_tail(ComparedModel& model, ModelResult& result) {
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < model.frames.size(); ++i) {
    if (i % 10 == 0) model.frames[i].inference.count *= 4;
    times.push_back(model.frames[i].inference.count);
  }
  result.inference = monitoring::summarise_latency(std::move(times));
  result.fps = 1e9 / result.inference->mean_ns;
}

// The undisturbed latency is equal; the tail and the frame rate differ.
TEST(CompareRuns, JudgesTailIfSeveralRunsShowSpread) {
  Runs a, b;
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000 + i * 1000, 100 << 20, i);
    b.add(1'000'000 + i * 1000, 100 << 20, 10 + i);
    lengthen_tail(b.side[i].models[0], b.results[i].models[0]);
  }
  const RunComparison found = compare_runs(a.side, b.side);
  EXPECT_FALSE(found.models[0].find("latency")->differs);
  for (const char* name : {"p99", "fps"}) {
    EXPECT_TRUE(found.models[0].find(name)->is_judged) << name;
    EXPECT_TRUE(found.models[0].find(name)->differs) << name;
  }
  // With one run per side, a neighbouring process may be the cause.
  const RunComparison single = compare_runs({a.side.front()}, {b.side.front()});
  EXPECT_FALSE(single.models[0].find("p99")->is_judged);
  EXPECT_FALSE(single.models[0].find("p99")->differs);
  // The slowest of 200 frames and the slowest of 50 are not the same percentile.
  for (BenchResult& result : b.results) result.models[0].inference->n = 50;
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("p99")->is_judged);
}

double run_metrics_latency(const ComparedModel& model) {
  return find_run_metric("latency")->value(model.figures()).value_or(0);
}

// Equal runs: the judged figures have 5 % of false alarms together, however correlated they are.
TEST(CompareRuns, AllJudgedFiguresTogetherKeepFalseAlarmRate) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  constexpr int kTrials = 400;
  for (const unsigned runs : {3U, 8U}) {
    int alarms = 0;
    for (unsigned trial = 0; trial < kTrials; ++trial) {
      std::mt19937 random(1000 * runs + trial);
      std::normal_distribution<double> normal;
      std::bernoulli_distribution meets_a_neighbour(0.3);
      Runs a, b;
      for (unsigned i = 0; i < runs; ++i)
        for (Runs* side : {&a, &b}) {
          side->add(static_cast<std::int64_t>(1e6 * std::exp(0.04 * normal(random))),
                    (100 << 20) + static_cast<std::int64_t>(random() % (1 << 20)),
                    static_cast<unsigned>(random()));
          ComparedModel& model = side->side.back().models[0];
          if (meets_a_neighbour(random)) lengthen_tail(model, side->results.back().models[0]);
          // As in a kept run. Errors by frames are not tested here and are slow to compute.
          model.latency = run_metrics_latency(model);
          model.frames.clear();
        }
      const RunComparison found = compare_runs(a.side, b.side);
      if (std::any_of(found.models[0].metrics.begin(), found.models[0].metrics.end(),
                      [](const MetricChange& change) { return change.is_judged && change.differs; }))
        ++alarms;
    }
    EXPECT_LE(alarms, kTrials * 5 / 100) << runs;
  }
}

TEST(CompareRuns, CertainButTinyChangeIsIgnored) {
  Runs a, b;
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000, 100 << 20, i);
    b.add(1'004'000, (100 << 20) + 8192, i);
  }
  const RunComparison found = compare_runs(a.side, b.side);
  EXPECT_GT(found.models[0].find("latency")->low, 1);
  EXPECT_FALSE(found.models[0].find("latency")->differs);
  EXPECT_FALSE(found.models[0].find("run_peak")->differs);
}

}  // namespace
}  // namespace headroom::comparison
