// Runs that were measured in step are compared turn by turn: frame by frame, alternating between both
// programs.
#include "comparison/metric_change.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runs_of_a_model.h"
#include "support/test_support.h"

namespace headroom::comparison {
namespace {

// `pairs` pairs of runs in step. The machine slows both frames of a turn by a factor of up to two, for about
// fifty turns at a time. A frame of B takes `ratio` times one of A, plus a little noise.
struct InStepRuns {
  Runs a, b;

  InStepRuns(int pairs, double ratio, std::size_t frames, bool one_processor, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> own(0, 0.02);
    std::uniform_real_distribution<double> state(1, 2);
    for (int pair = 0; pair < pairs; ++pair) {
      a.add(3'000'000, 50 << 20, seed);
      b.add(3'000'000, 50 << 20, seed);
      double speed = 1;
      std::vector<FrameTimes>&before = a.side.back().models[0].frames,
      &after = b.side.back().models[0].frames;
      before.assign(frames, {});
      after.assign(frames, {});
      for (std::size_t i = 0; i < frames; ++i) {
        if (random() % 50 == 0) speed = state(random);
        before[i].inference = {std::llround(3e6 * speed * std::exp(own(random)))};
        after[i].inference = {std::llround(3e6 * ratio * speed * std::exp(own(random)))};
      }
      for (Runs* side : {&a, &b})
        side->results.back().models[0].in_step =
            InStep{std::to_string(pair), static_cast<std::int64_t>(frames), one_processor};
    }
  }
  MetricChange latency() const { return *compare_runs(a.side, b.side).models[0].find("latency"); }
};

TEST(TurnsOfRuns, OnePairFindsThreePercentOnUnsteadyMachine) {
  for (unsigned seed = 0; seed < static_cast<unsigned>(test::repetitions(20)); ++seed) {
    const MetricChange slower = InStepRuns(1, 1.03, 1000, true, seed).latency();
    EXPECT_TRUE(slower.was_in_step && slower.is_judged && slower.differs && slower.is_worse());
    EXPECT_NEAR(slower.ratio, 1.03, 0.005);
    EXPECT_FALSE(slower.spread_was_measured);
    EXPECT_FALSE(InStepRuns(1, 1, 1000, true, seed).latency().differs);
  }
}

TEST(TurnsOfRuns, ShortRunsAndTwoProcessorsWidenInterval) {
  const auto reach = [](const MetricChange& change) { return std::log(change.high / change.low) / 2; };
  const double longer = reach(InStepRuns(1, 1, 1000, true, 1).latency());
  EXPECT_GT(reach(InStepRuns(1, 1, 100, true, 1).latency()), 1.3 * longer);
  EXPECT_GT(reach(InStepRuns(1, 1, 1000, false, 1).latency()), 1.3 * longer);
  EXPECT_LT(longer, 0.021);
}

TEST(TurnsOfRuns, ThreePairsOrMoreMeasureSpread) {
  const MetricChange five = InStepRuns(5, 1.03, 300, true, 7).latency();
  EXPECT_TRUE(five.was_in_step && five.spread_was_measured && five.differs);
  EXPECT_EQ(five.runs_before, 5);
  // The three runs are close together here, so the fixed allowance applies.
  const MetricChange three = InStepRuns(3, 1.005, 300, true, 7).latency();
  EXPECT_FALSE(three.differs);
}

TEST(TurnsOfRuns, RunWithoutPartnerIsComparedNormally) {
  InStepRuns runs(1, 1.03, 1000, true, 3);
  runs.b.results[0].models[0].in_step->id = "another";
  EXPECT_FALSE(runs.latency().was_in_step);
  runs.b.results[0].models[0].in_step.reset();
  EXPECT_FALSE(runs.latency().was_in_step);
  InStepRuns few(1, 1.03, 1000, true, 3);
  few.b.results[0].models[0].in_step->frames = 29;  // the rest was measured alone
  EXPECT_FALSE(few.latency().was_in_step);
  few.b.results[0].models[0].in_step->frames = -5;  // as in a damaged report
  EXPECT_FALSE(few.latency().was_in_step);
}

// Half of the frames are fast and half are slow. A few more slow frames in B move its median, although
// nearly all of its frames are faster than their partners in A. Ratio, values and direction must agree.
TEST(TurnsOfRuns, RatioAndValuesAgreeForTwoKindsOfFrames) {
  InStepRuns runs(1, 1, 1000, true, 3);
  auto &before = runs.a.side[0].models[0].frames, &after = runs.b.side[0].models[0].frames;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool slow = i % 100 < 49;
    before[i].inference = {slow ? 20'000'000 : 10'000'000};
    after[i].inference = {i % 100 == 50 || i % 100 == 51 ? 20'000'000 : before[i].inference.count * 95 / 100};
  }
  const MetricChange latency = runs.latency();
  EXPECT_TRUE(latency.differs);
  EXPECT_FALSE(latency.is_worse());
  EXPECT_NEAR(latency.ratio, 0.95, 1e-9);
  EXPECT_NEAR(latency.after / latency.before, latency.ratio, 1e-9);
  EXPECT_LT(latency.change(), 0);
}

TEST(TurnsOfRuns, CountsOnlyFramesInStep) {
  InStepRuns runs(1, 1, 400, true, 3);
  // The other run ended earlier. The frames that this run measured alone were faster.
  runs.b.results[0].models[0].in_step->frames = 200;
  auto& frames = runs.b.side[0].models[0].frames;
  for (std::size_t i = 200; i < frames.size(); ++i) frames[i].inference = {1'000'000};
  const MetricChange latency = runs.latency();
  EXPECT_TRUE(latency.was_in_step);
  EXPECT_FALSE(latency.differs);
  EXPECT_NEAR(latency.ratio, 1, 0.01);
}

TEST(TurnsOfRuns, ReportsInStepAsAFact) {
  InStepRuns runs(1, 1, 100, true, 3);
  runs.a.results[0].options.emplace();
  runs.b.results[0].options.emplace().in_step = "ci";
  const RunComparison found = compare_runs(runs.a.side, runs.b.side);
  ASSERT_EQ(found.facts.size(), 1);
  EXPECT_EQ(found.facts[0].what, "--in-step");
}

TEST(MedianError, MatchesNormalDistribution) {
  std::mt19937 random(1);
  std::normal_distribution<double> value(0, 1);
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(value(random));
  EXPECT_NEAR(median_error(values), 1.2533 / std::sqrt(1000),
              0.01);  // √(π/2)/√n of a normal distribution
  EXPECT_EQ(median_error(std::vector<double>{1}), 0);
}

}  // namespace
}  // namespace headroom::comparison
