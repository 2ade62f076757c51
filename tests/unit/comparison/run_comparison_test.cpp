// What counts as a change between runs, and with which confidence: times, their spread, and false alarms.
#include "comparison/run_comparison.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <random>

#include "comparison/gate.h"
#include "comparison/metric_change.h"
#include "monitoring/latency_summary.h"
#include "runs_of_a_model.h"
#include "support/test_support.h"

namespace headroom::comparison {
namespace {

using testing::HasSubstr;

TEST(RunMetrics, AlphasAddUpToFivePercent) {
  double sum = 0;
  for (const RunMetric& metric : run_metrics()) sum += metric.alpha;
  EXPECT_NEAR(sum, 0.05, 1e-12);
  EXPECT_EQ(find_run_metric("run_peak")->name, "run_peak");
  EXPECT_EQ(find_run_metric("no such"), nullptr);
}

TEST_F(CompareRuns, EqualRunsDoNotDiffer) {
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'010'000, (100 << 20) + (300 << 10), 2);  // 1 % and 300 KiB: normal variation between two runs
  const RunComparison found = compare();
  ASSERT_EQ(found.models.size(), 1);
  EXPECT_FALSE(found.models[0].find("latency")->differs);
  EXPECT_FALSE(found.models[0].find("run_peak")->differs);
  EXPECT_FALSE(found.models[0].find("latency")->spread_was_measured);
  EXPECT_TRUE(found.facts.empty());
}

// One run does not show how much the next one differs, however large the difference is, nor do two. What the
// other side knows of its runs does not count.
TEST_F(CompareRuns, TimesOfFewRunsAreNotSeparableFromNoise) {
  for (unsigned i = 0; i < 10; ++i) {
    a.add(10'000'000 + i * 1000, 100 << 20, i);
    b.add(30'000'000 + i * 1000, 100 << 20, 20 + i);
  }
  const auto few = [](const Side& side, std::size_t runs) {
    return Side(side.begin(), side.begin() + static_cast<std::ptrdiff_t>(runs));
  };
  for (const auto& [before, after, words] :
       {std::tuple<std::size_t, std::size_t, const char*>{1, 1, "with one run each"},
        {2, 2, "with 2 runs each"},
        {10, 1, "with 10 and 1 runs"}}) {
    const auto found = compare_runs(few(a.side, before), few(b.side, after));
    for (const char* name : {"latency", "p50", "p99", "fps"}) {
      const MetricChange& change = *found.models[0].find(name);
      EXPECT_FALSE(change.is_separable || change.is_judged || change.differs) << name << " " << words;
      EXPECT_TRUE(change.is_noise());
      EXPECT_EQ(words_for_runs(change), words);
    }
    EXPECT_NEAR(found.models[0].find("latency")->ratio, 3, 0.01);
    EXPECT_TRUE(found.models[0].find("run_peak")->is_judged);
  }
  const auto three = compare_runs(few(a.side, 3), few(b.side, 3));
  const MetricChange* latency = three.models[0].find("latency");
  EXPECT_TRUE(latency->is_separable && latency->is_judged && latency->differs && latency->is_worse());
}

// Six models together have the false alarm rate of one.
TEST_F(CompareRuns, ModelsShareFalseAlarmRate) {
  add(100 << 20, 100 << 20);
  const double of_one = compare().models[0].find("run_peak")->confidence;
  std::deque<ModelResult> more;
  for (Runs* runs : {&a, &b})
    for (int i = 0; i < 5; ++i) {
      more.push_back(runs->results[0].models[0]);
      more.back().name = "model" + std::to_string(i);
      runs->side[0].models.push_back({&more.back(), {}, ""});
    }
  const RunComparison six = compare();
  ASSERT_EQ(six.models.size(), 6);
  for (const ModelComparison& model : six.models)
    EXPECT_NEAR(1 - model.find("run_peak")->confidence, (1 - of_one) / 6, 1e-12);
}

// The table, the verdict and the gate show the same figure.
TEST_F(CompareRuns, RatioMatchesShownValues) {
  for (const int mebibytes : {60, 61, 90}) a.add(1'000'000, mebibytes << 20, 1);
  for (const int mebibytes : {48, 49, 50}) b.add(1'100'000, mebibytes << 20, 2);
  const RunComparison several = compare();
  const RunComparison single = compare_runs({a.side[0], a.side[2]}, {b.side[0]});
  for (const RunComparison* found : {&several, &single})
    for (const MetricChange& change : found->models[0].metrics)
      EXPECT_NEAR(change.ratio, change.after / change.before, 1e-9) << change.metric->name;
}

// Of fewer than 50 frames the 2nd percentile is the fastest frame, which is faster the more frames there are.
TEST_F(CompareRuns, LatencyOfFewFramesNeedsEqualFrameCounts) {
  for (unsigned i = 0; i < 3; ++i) {
    a.add(1'000'000, 1 << 20, i);
    b.add(1'500'000, 1 << 20, 10 + i);
  }
  EXPECT_TRUE(compare().models[0].find("latency")->is_judged);
  for (BenchResult& result : b.results) result.models[0].inference->n = 49;
  const RunComparison apart = compare();
  EXPECT_FALSE(apart.models[0].find("latency")->is_judged);
  EXPECT_THAT(apart.caveats,
              testing::ElementsAre(HasSubstr("different numbers of frames; measure 50 or more")));
  for (BenchResult& result : a.results) result.models[0].inference->n = 49;
  EXPECT_TRUE(compare().models[0].find("latency")->is_judged);
}

TEST_F(CompareRuns, KeptRunsHaveTheirLatency) {
  add(1 << 20, 1 << 20);
  a.side[0].models[0].frames.clear();
  const RunComparison without = compare();
  EXPECT_EQ(without.models[0].find("latency"), nullptr);
  EXPECT_THAT(without.caveats, testing::ElementsAre(HasSubstr("A has no frames/ folder")));
  a.side[0].models[0].latency = 1'000'000;
  EXPECT_NE(compare().models[0].find("latency"), nullptr);
  // Zero: the frames were not measured.
  for (FrameTimes& frame : b.side[0].models[0].frames) frame.inference = {0};
  EXPECT_EQ(compare().models[0].find("latency"), nullptr);
}

// Only successful runs have figures.
TEST_F(CompareRuns, OmitsFiguresOfFailedRuns) {
  a.add(1'000'000, 100 << 20, 1);
  add(10 << 20, 100 << 20);
  a.results[1].models[0].status = ModelStatus::oom;
  a.results[1].models[0].error = "the kernel killed it";
  const RunComparison found = compare();
  EXPECT_EQ(found.models[0].find("run_peak")->runs_before, 1);
  EXPECT_EQ(found.models[0].find("run_peak")->before, 100 << 20);
  EXPECT_TRUE(found.models[0].recovered());
  EXPECT_FALSE(found.models[0].fell());
  EXPECT_EQ(found.models[0].outcome_before.failed, 1);
  EXPECT_EQ(found.models[0].outcome_before.error, "the kernel killed it");
  b.results[0].models[0].status = ModelStatus::crashed;
  EXPECT_TRUE(compare().models[0].metrics.empty());
  EXPECT_TRUE(compare().models[0].fell());  // failed in all runs; in A it was one of two
}

TEST_F(CompareRuns, SeveralRunsFindSmallerChange) {
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000 + i * 1000, 100 << 20, i);
    b.add(1'030'000 + i * 1000, 102 << 20, 10 + i);
  }
  const RunComparison found = compare();
  const MetricChange* latency = found.models[0].find("latency");
  EXPECT_TRUE(latency->spread_was_measured);
  EXPECT_TRUE(latency->differs);
  EXPECT_TRUE(latency->is_worse());
  EXPECT_NEAR(latency->ratio, 1.03, 0.003);
  EXPECT_LT(latency->low, latency->ratio);
  EXPECT_GT(latency->high, latency->ratio);
  EXPECT_TRUE(found.models[0].find("run_peak")->differs);
  EXPECT_GT(*found.models[0].superiority, 0.99);
}

// The clock of the machine drifts slowly by 10 %. Only alternating runs can find a change of 3 %.
TEST_F(CompareRuns, PairsAlternatingRuns) {
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000 + i * 25'000, 100 << 20, i);
    b.add(1'030'000 + i * 25'000 + i * 300, 100 << 20, 10 + i);
    a.results[i].started_at = fmt::format("2026-11-23T10:00:00.{}00Z", 2 * i);
    b.results[i].started_at = fmt::format("2026-11-23T10:00:00.{}00Z", 2 * i + 1);
  }
  const RunComparison found = compare();
  EXPECT_TRUE(found.models[0].find("latency")->was_paired);
  EXPECT_TRUE(found.models[0].find("latency")->differs);
  // Alternating runs with another time zone in B.
  for (BenchResult& result : b.results) result.started_at.replace(11, 2, "05").replace(23, 1, "-05:00");
  EXPECT_TRUE(compare().models[0].find("latency")->was_paired);
  // All of A first, then all of B.
  for (BenchResult& result : b.results) result.started_at.replace(11, 2, "11");
  const RunComparison behind = compare();
  EXPECT_FALSE(behind.models[0].find("latency")->was_paired);
  EXPECT_FALSE(behind.models[0].find("latency")->differs);
}

// Runs in step: the machine slows both frames of a turn by a factor of up to two, for about fifty turns at a
// time, and each pair of runs by another one. A frame of B takes `ratio` times one of A, plus a little noise.
MetricChange latency_in_step(int pairs, double ratio, const std::function<void(Runs& b)>& alter = {}) {
  constexpr std::size_t kFrames = 300;
  std::mt19937 random(7);
  std::normal_distribution<double> own(0, 0.02);
  std::uniform_real_distribution<double> state(1, 2);
  Runs a, b;
  for (int pair = 0; pair < pairs; ++pair) {
    for (Runs* side : {&a, &b}) {
      side->add(3'000'000, 50 << 20, 1);
      side->side.back().models[0].frames.assign(kFrames, {});
      side->results.back().models[0].in_step = InStep{std::to_string(pair), kFrames, true};
    }
    double speed = state(random);
    for (std::size_t i = 0; i < kFrames; ++i) {
      if (random() % 50 == 0) speed = state(random);
      a.side.back().models[0].frames[i].inference = {std::llround(3e6 * speed * std::exp(own(random)))};
      b.side.back().models[0].frames[i].inference = {
          std::llround(3e6 * ratio * speed * std::exp(own(random)))};
    }
  }
  if (alter) alter(b);
  return *compare_runs(a.side, b.side).models[0].find("latency");
}

TEST(RunsInStep, AreComparedFrameByFrameFromThreePairsOn) {
  const MetricChange slower = latency_in_step(5, 1.03);
  EXPECT_TRUE(slower.was_in_step && slower.is_judged && slower.differs && slower.is_worse());
  EXPECT_NEAR(slower.ratio, 1.03, 0.005);
  EXPECT_NEAR(slower.after / slower.before, slower.ratio, 1e-9);
  EXPECT_FALSE(latency_in_step(5, 1).differs);
  EXPECT_TRUE(latency_in_step(3, 1.03).was_in_step);
  const MetricChange two = latency_in_step(2, 1.03);
  EXPECT_FALSE(two.was_in_step || two.is_separable || two.differs);
}

TEST(RunsInStep, RunWithoutPartnerIsComparedNormally) {
  const auto in_step = [](const std::function<void(std::optional<InStep>&)>& alter) {
    return latency_in_step(3, 1.03, [&](Runs& b) { alter(b.results[0].models[0].in_step); }).was_in_step;
  };
  EXPECT_FALSE(in_step([](auto& turns) { turns->id = "another"; }));
  EXPECT_FALSE(in_step([](auto& turns) { turns.reset(); }));
  EXPECT_FALSE(in_step([](auto& turns) { turns->frames = 29; }));  // the rest was measured alone
  EXPECT_FALSE(in_step([](auto& turns) { turns->frames = -5; }));  // as in a damaged report
}

TEST(RunsInStep, OnlyFramesInStepCount) {
  const MetricChange latency = latency_in_step(3, 1, [](Runs& b) {
    b.results[0].models[0].in_step->frames = 200;
    auto& frames = b.side[0].models[0].frames;
    for (std::size_t i = 200; i < frames.size(); ++i) frames[i].inference = {1'000'000};
  });
  EXPECT_TRUE(latency.was_in_step);
  EXPECT_NEAR(latency.ratio, 1, 0.01);
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
TEST_F(CompareRuns, JudgesTailIfSeveralRunsShowSpread) {
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000 + i * 1000, 100 << 20, i);
    b.add(1'000'000 + i * 1000, 100 << 20, 10 + i);
    lengthen_tail(b.side[i].models[0], b.results[i].models[0]);
  }
  const RunComparison found = compare();
  EXPECT_FALSE(found.models[0].find("latency")->differs);
  for (const char* name : {"p99", "fps"}) {
    EXPECT_TRUE(found.models[0].find(name)->is_judged) << name;
    EXPECT_TRUE(found.models[0].find(name)->differs) << name;
  }
  // The slowest of 200 frames and the slowest of 50 are not the same percentile.
  for (BenchResult& result : b.results) result.models[0].inference->n = 50;
  EXPECT_FALSE(compare().models[0].find("p99")->is_judged);
}

double run_metrics_latency(const ComparedModel& model) {
  return find_run_metric("latency")->value(model.figures()).value_or(0);
}

// Equal runs: the judged figures have 5 % of false alarms together, however correlated they are.
TEST_F(CompareRuns, AllJudgedFiguresTogetherKeepFalseAlarmRate) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  constexpr int kTrials = 400;
  for (const unsigned runs : {3U, 8U}) {
    int alarms = 0;
    for (unsigned trial = 0; trial < kTrials; ++trial) {
      std::mt19937 random(1000 * runs + trial);
      std::normal_distribution<double> normal;
      std::bernoulli_distribution meets_a_neighbour(0.3);
      Runs before, after;
      for (unsigned i = 0; i < runs; ++i)
        for (Runs* side : {&before, &after}) {
          side->add(static_cast<std::int64_t>(1e6 * std::exp(0.04 * normal(random))),
                    (100 << 20) + static_cast<std::int64_t>(random() % (1 << 20)),
                    static_cast<unsigned>(random()));
          ComparedModel& model = side->side.back().models[0];
          if (meets_a_neighbour(random)) lengthen_tail(model, side->results.back().models[0]);
          // As in a kept run: the frames are slow to sort.
          model.latency = run_metrics_latency(model);
          model.frames.clear();
        }
      const RunComparison found = compare_runs(before.side, after.side);
      if (std::ranges::any_of(found.models[0].metrics,
                              [](const MetricChange& change) { return change.is_judged && change.differs; }))
        ++alarms;
    }
    EXPECT_LE(alarms, kTrials * 5 / 100) << runs;
  }
}

TEST_F(CompareRuns, CertainButTinyChangeIsIgnored) {
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000, 100 << 20, i);
    b.add(1'004'000, (100 << 20) + 8192, i);
  }
  const RunComparison found = compare();
  EXPECT_GT(found.models[0].find("latency")->low, 1);
  EXPECT_FALSE(found.models[0].find("latency")->differs);
  EXPECT_FALSE(found.models[0].find("run_peak")->differs);
}

}  // namespace
}  // namespace headroom::comparison
