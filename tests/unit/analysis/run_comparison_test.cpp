// What counts as a change between runs, and why.
#include "analysis/run_comparison.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "analysis/latency_summary.h"
#include "analysis/metric_change.h"
#include "analysis/metric_gate.h"
#include "runs_of_a_model.h"
#include "support/test_support.h"

namespace headroom::analysis {
namespace {

using testing::HasSubstr;

TEST(RunMetrics, ShareTheFalseAlarmsOfOneInTwenty) {
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

TEST(CompareRuns, TwoRunsOfOneThingAreTheSame) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'010'000, (100 << 20) + (300 << 10), 2);  // 1 % and 300 KiB: what two runs differ by
  const RunComparison found = compare_runs(a.side, b.side);
  ASSERT_EQ(found.models.size(), 1);
  EXPECT_FALSE(found.models[0].find("latency")->differs);
  EXPECT_FALSE(found.models[0].find("run_peak")->differs);
  EXPECT_FALSE(found.models[0].find("latency")->spread_was_measured);
  EXPECT_TRUE(found.facts.empty());
}

// A huge page under the bare runtime of one run is no growth of the model; several of them are no chance.
TEST(CompareRuns, WhatTheBareRuntimeDiffersByIsChanceUpToAHugePage) {
  Runs a, b;
  a.add(1'000'000, 50 << 20, 1);
  b.add(1'000'000, 51 << 20, 2);
  a.results[0].models[0].memory.runtime = Bytes{26 << 20};
  b.results[0].models[0].memory.runtime = Bytes{26 << 20};
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].memory.runtime = Bytes{28 << 20};
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].backend_version = "another";  // then the runtime itself may have grown
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].backend_version = "";
  b.results[0].models[0].memory.runtime = Bytes{36 << 20};  // and all of it is in what follows
  b.results[0].models[0].memory.run_peak = Bytes{60 << 20};
  const RunComparison grown = compare_runs(a.side, b.side);
  EXPECT_TRUE(grown.models[0].find("run_peak")->differs);
  EXPECT_TRUE(grown.models[0].find("runtime")->differs);
}

// What a run knows only of a model that it could load is no cause of its failure.
TEST(CompareRuns, WhatAFailureLeftOutIsNoCauseOfIt) {
  Runs a, b;
  a.add(1'000'000, 50 << 20, 1);
  b.add(1'000'000, 50 << 20, 2);
  ModelResult &came_through = a.results[0].models[0], &fell = b.results[0].models[0];
  came_through.backend = fell.backend = "onnxruntime";
  came_through.confidence = 0.25;
  came_through.iou = 0.45;
  came_through.task = "detect";
  came_through.input = "float32[1,3,64,64]";
  came_through.backend_version = "1.0";
  fell.status = ModelStatus::oom;
  fell.frames = 3;
  const RunComparison found = compare_runs(a.side, b.side);
  EXPECT_TRUE(found.models[0].facts.empty()) << found.models[0].facts.front().what;
  fell.status = ModelStatus::ok;
  fell.frames = 200;
  EXPECT_EQ(compare_runs(a.side, b.side).models[0].facts.size(), 2);  // then the thresholds were changed
}

// As ONNX Runtime 1.29 names them: the counter goes to other nodes in each process.
TEST(CompareRuns, NodesThatTheRuntimeNamesByACounterAreComparedByTheirOperator) {
  Runs a, b;
  a.add(1'000'000, 50 << 20, 1);
  b.add(1'000'000, 50 << 20, 2);
  const auto node = [](const char* name, const char* operation, std::int64_t bytes) {
    NodeMemory memory;
    memory.name = name;
    memory.operation = operation;
    memory.activations = Bytes{bytes};
    return memory;
  };
  for (Runs* runs : {&a, &b}) runs->results[0].models[0].layers.emplace();
  a.results[0].models[0].layers->nodes = {node("conv_1", "Conv", 1000),
                                          node("ReorderOutput_token_121", "ReorderOutput", 524288),
                                          node("ReorderOutput_token_110", "ReorderOutput", 131072)};
  b.results[0].models[0].layers->nodes = {node("conv_1", "Conv", 1000),
                                          node("ReorderOutput_token_110", "ReorderOutput", 524288),
                                          node("ReorderOutput_token_119", "ReorderOutput", 131072)};
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].nodes.empty());
  b.results[0].models[0].layers->nodes.push_back(node("ReorderOutput_token_7", "ReorderOutput", 4096));
  const auto changes = compare_runs(a.side, b.side).models[0].nodes;
  ASSERT_EQ(changes.size(), 1);
  EXPECT_EQ(changes[0].name, "ReorderOutput (added by the runtime, all)");
  EXPECT_EQ(changes[0].change(), 4096);
}

// The page cache settles how many pages of a library are mapped: 3 MiB more of them are no growth, 3 MiB more
// of the program's own memory are.
TEST(CompareRuns, PagesOfFilesAreNoGrowth) {
  Runs a, b;
  a.add(1'000'000, 50 << 20, 1);
  b.add(1'000'000, 53 << 20, 2);
  a.results[0].models[0].memory.file_backed_peak = Bytes{30 << 20};
  b.results[0].models[0].memory.file_backed_peak = Bytes{33 << 20};
  const RunComparison mapped = compare_runs(a.side, b.side);
  EXPECT_FALSE(mapped.models[0].find("run_peak")->differs);
  EXPECT_TRUE(mapped.models[0].find("run_peak")->is_of_file_pages);
  EXPECT_THAT(mapped.caveats, testing::ElementsAre(HasSubstr("depends on the page cache")));
  b.results[0].models[0].memory.file_backed_peak = Bytes{30 << 20};
  const RunComparison grown = compare_runs(a.side, b.side);
  EXPECT_TRUE(grown.models[0].find("run_peak")->differs);
  EXPECT_TRUE(grown.caveats.empty());
  // A short run that ended between two samples: 10 MiB of pages were missed, and explain nothing.
  a.results[0].models[0].memory.file_backed_peak = Bytes{20 << 20};
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].memory.run_peak = Bytes{50 << 20};
  const RunComparison same = compare_runs(a.side, b.side);
  EXPECT_FALSE(same.models[0].find("run_peak")->differs);
  EXPECT_LT(same.models[0].find("run_peak")->high, 1.03);
}

// One run in six of a model has 2 MiB more; 1 MiB more has none, and neither have 4.
TEST(CompareRuns, AStepOfAHugePageIsNoGrowthUntilSeveralRunsHaveIt) {
  Runs a, b;
  a.add(1'000'000, 66 << 20, 1);
  b.add(1'000'000, 68 << 20, 2);
  const RunComparison step = compare_runs(a.side, b.side);
  EXPECT_FALSE(step.models[0].find("run_peak")->differs);
  EXPECT_THAT(step.caveats, testing::ElementsAre(HasSubstr("three runs or more a side")));
  for (const int mebibytes : {67, 70}) {
    b.results[0].models[0].memory.run_peak = Bytes{mebibytes << 20};
    EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs) << mebibytes;
  }
  for (unsigned i = 0; i < 3; ++i) {
    a.add(1'000'000, 66 << 20, 10 + i);
    b.add(1'000'000, 68 << 20, 20 + i);
  }
  b.results[0].models[0].memory.run_peak = Bytes{68 << 20};
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
}

// At fixed addresses two runs of one thing have the same heap, so a step is growth, and a run each tells. Of
// another model the heap lies elsewhere, and as many runs as one likes are of one layout.
TEST(CompareRuns, AtFixedAddressesAStepIsGrowth) {
  Runs a, b;
  a.add(1'000'000, 66 << 20, 1);
  b.add(1'000'000, 68 << 20, 2);
  for (Runs* runs : {&a, &b}) runs->results[0].models[0].memory.fixed_addresses = true;
  const RunComparison one = compare_runs(a.side, b.side);
  EXPECT_TRUE(one.models[0].find("run_peak")->differs);
  EXPECT_TRUE(one.caveats.empty());
  for (unsigned i = 1; i < 5; ++i) {
    a.add(1'000'000, 66 << 20, 10 + i);
    b.add(1'000'000, 68 << 20, 20 + i);
    for (Runs* runs : {&a, &b}) runs->results[i].models[0].memory.fixed_addresses = true;
  }
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  for (ComparedRun& run : b.side) run.models[0].fingerprint = "beef";
  const RunComparison other = compare_runs(a.side, b.side);
  EXPECT_FALSE(other.models[0].find("run_peak")->differs);
  EXPECT_THAT(other.caveats, testing::ElementsAre(HasSubstr("headroom bench --aslr")));
}

// Runs of one fixed layout have a step all, or none: less than one is none, however many they are.
TEST(CompareRuns, MoreRunsOfOneLayoutHideNoGrowth) {
  Runs a, b;
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000, 66 << 20, i);
    b.add(1'000'000, (66 << 20) + (1 << 20), 20 + i);
    for (Runs* runs : {&a, &b}) runs->results[i].models[0].memory.fixed_addresses = true;
    b.results[i].models[0].backend_version = "2";
    EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs) << i + 1;
  }
}

// One new run within what the kept ones lie in.
TEST(CompareRuns, ManyRunsTellTheSpreadOfASinglePeak) {
  Runs a, b;
  for (const int peak : {56, 62, 65, 68, 74}) a.add(1'000'000, peak << 20, static_cast<unsigned>(peak));
  b.add(1'000'000, 71 << 20, 30);
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].memory.run_peak = Bytes{140 << 20};
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
}

TEST(CompareRuns, FramesHeldInMemoryAreAFact) {
  Runs a, b;
  a.add(1'000'000, 62 << 20, 1);
  b.add(1'000'000, 54 << 20, 2);
  a.results[0].models[0].memory.frames = Bytes{15'552'000};
  b.results[0].models[0].memory.frames = Bytes{7'776'000};
  const auto facts = compare_runs(a.side, b.side).models[0].facts;
  ASSERT_EQ(facts.size(), 1U);
  EXPECT_EQ(facts[0].what, "frames held in memory");
}

// Ten kept runs and a new one: what the ten differ by holds for the new one, too.
TEST(CompareRuns, ManyRunsTellTheSpreadOfASingleOne) {
  Runs a, b;
  for (unsigned i = 0; i < 10; ++i) a.add(i % 2 == 0 ? 1'000'000 : 1'500'000, 100 << 20, i);
  b.add(1'550'000, 100 << 20, 30);
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
  EXPECT_TRUE(compare_runs({a.side.front()}, b.side).models[0].find("latency")->differs);
}

// A run has one state of the machine, and the next one another.
TEST(CompareRuns, OneRunTellsLittleOfALatency) {
  Runs a, b;
  a.add(10'000'000, 100 << 20, 1);
  b.add(12'000'000, 100 << 20, 2);
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("p50")->differs);
  b.add(16'000'000, 100 << 20, 3);
  EXPECT_TRUE(compare_runs(a.side, {b.side.back()}).models[0].find("latency")->differs);
}

// Three that lie close together by chance, of runs that have one of two speeds.
TEST(CompareRuns, AFewRunsOfOneSpeedAreNoChange) {
  Runs a, b;
  for (unsigned i = 0; i < 3; ++i) {
    a.add(1'000'000 + i * 500, 100 << 20, i);
    b.add(1'040'000 + i * 500, 100 << 20, 10 + i);
  }
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
}

// A run that had two thirds of a core is slower, and nothing of it is the model's.
TEST(CompareRuns, AllowsForARunThatWaitedForTheProcessor) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'400'000, 100 << 20, 2);
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
  a.results[0].models[0].cpu_percent = 98;
  b.results[0].models[0].cpu_percent = 60;
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("latency")->differs);
}

// Where others wanted the processors so little can be told that the reader must know why.
TEST(CompareRuns, DisturbedRunsSayThatTheyWere) {
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
  b.results[0].models[0].inference = summarise_latency(std::move(times));
  EXPECT_THAT(compare_runs(a.side, b.side).caveats,
              testing::ElementsAre(HasSubstr("took 1.0 times an undisturbed one in A, 4.0 times in B")));
}

// What was kept of a run's frames counts as the frames do: else a comparison of kept runs is the narrower
// one.
TEST(CompareRuns, KeptRunsHaveTheErrorsOfTheirFrames) {
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

TEST(CompareRuns, ARunOfOneFrameHasNoPercentiles) {
  Runs a, b;
  a.add(1'000'000, 100 << 20, 1);
  b.add(1'700'000, 100 << 20, 2);
  for (Runs* runs : {&a, &b}) {
    runs->side[0].models[0].frames.resize(1);
    std::vector<std::int64_t> time{runs->side[0].models[0].frames[0].inference.count};
    runs->results[0].models[0].inference = summarise_latency(std::move(time));
  }
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("p99")->differs);
}

// Six models are compared with the false alarms of one.
TEST(CompareRuns, ModelsShareTheFalseAlarms) {
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

// What the table, the verdict and the gate tell is one figure.
TEST(CompareRuns, TheRatioIsThatOfTheValuesThatAreShown) {
  Runs a, b;
  for (const int mebibytes : {60, 61, 90}) a.add(1'000'000, mebibytes << 20, 1);
  for (const int mebibytes : {48, 49, 50}) b.add(1'100'000, mebibytes << 20, 2);
  const RunComparison several = compare_runs(a.side, b.side);
  const RunComparison single = compare_runs({a.side[0], a.side[2]}, {b.side[0]});
  for (const RunComparison* found : {&several, &single})
    for (const MetricChange& change : found->models[0].metrics)
      EXPECT_NEAR(change.ratio, change.after / change.before, 1e-9) << change.metric->name;
}

// The fastest of three frames is held against the frame of the other run that lies where it does on average.
TEST(CompareRuns, AFewFramesAreComparedWithTheirLike) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1);
  b.add(1'000'000, 1 << 20, 2);
  for (int i = 0; i < 200; ++i) a.side[0].models[0].frames[i].inference = {1'000'000 + i * 10'000};
  auto& few = b.side[0].models[0].frames;
  few.resize(3);
  few[0].inference = {1'490'000};  // the 50th of 200
  few[1].inference = {1'990'000};
  few[2].inference = {2'490'000};
  const RunComparison found = compare_runs(a.side, b.side);
  const MetricChange* latency = found.models[0].find("latency");
  EXPECT_NEAR(latency->ratio, 1, 1e-9);
  EXPECT_FALSE(latency->is_judged);
  EXPECT_THAT(found.caveats, testing::ElementsAre(HasSubstr("a run of det has 3 frames")));
  few[0].inference = {0};  // a frame that took no time was not measured
  EXPECT_EQ(compare_runs(a.side, b.side).models[0].find("latency"), nullptr);
}

// Of the history without frames: the 2nd percentile of 200 frames is not the fastest of 20.
TEST(CompareRuns, KeptLatenciesAreComparedWithRunsOfAsManyFrames) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1);
  b.add(1'000'000, 1 << 20, 2);
  a.side[0].models[0].frames.clear();
  a.side[0].models[0].latency = 1'000'000;
  EXPECT_NE(compare_runs(a.side, b.side).models[0].find("latency"), nullptr);
  b.side[0].models[0].frames.resize(20);
  const RunComparison apart = compare_runs(a.side, b.side);
  EXPECT_EQ(apart.models[0].find("latency"), nullptr);
  EXPECT_THAT(apart.caveats, testing::ElementsAre(HasSubstr("another number of frames")));
  a.results[0].models[0].frames = 20;
  EXPECT_NE(compare_runs(a.side, b.side).models[0].find("latency"), nullptr);
}

// Only what came through has figures.
TEST(CompareRuns, FiguresOfFailedRunsAreLeftOut) {
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
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].fell());  // in all runs, where it was one of two
}

TEST(CompareRuns, WhatWasNothingHasNoRatio) {
  Runs a, b;
  a.add(1'000'000, 0, 1);
  b.add(1'000'000, 50 << 20, 2);
  const RunComparison found = compare_runs(a.side, b.side);
  const MetricChange* peak = found.models[0].find("run_peak");
  EXPECT_FALSE(peak->has_ratio);
  EXPECT_TRUE(peak->differs);
  EXPECT_FALSE(peak->is_noise());
  EXPECT_LT(peak->low_change, 50 << 20);
  EXPECT_GT(peak->low_change, 49 << 20);
  EXPECT_GT(peak->high_change, 50 << 20);
}

TEST(CompareRuns, SeveralRunsTellASmallerChange) {
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
  // A single run of each cannot tell it.
  const RunComparison single = compare_runs({a.side.front()}, {b.side.front()});
  EXPECT_FALSE(single.models[0].find("latency")->differs);
}

// A machine whose clock moves by a tenth, slowly: only runs made in turns tell 3 %.
TEST(CompareRuns, RunsMadeInTurnsArePaired) {
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
  // Made by a program in another zone, and in turns all the same.
  for (BenchResult& result : b.results) result.started_at.replace(11, 2, "05").replace(23, 1, "-05:00");
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("latency")->was_paired);
  // All of A first, then all of B.
  for (BenchResult& result : b.results) result.started_at.replace(11, 2, "11");
  const RunComparison behind = compare_runs(a.side, b.side);
  EXPECT_FALSE(behind.models[0].find("latency")->was_paired);
  EXPECT_FALSE(behind.models[0].find("latency")->differs);
}

// Frames of a run of which every tenth takes four times as long.
void lengthen_tail(ComparedModel& model, ModelResult& result) {
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < model.frames.size(); ++i) {
    if (i % 10 == 0) model.frames[i].inference.count *= 4;
    times.push_back(model.frames[i].inference.count);
  }
  result.inference = summarise_latency(std::move(times));
  result.fps = 1e9 / result.inference->mean_ns;
}

// The undisturbed latency is the same: the tail and the rate are not.
TEST(CompareRuns, ATailMakesTheVerdictWhereTheRunsTellTheirSpread) {
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
  // One run a side may have met a neighbour.
  const RunComparison single = compare_runs({a.side.front()}, {b.side.front()});
  EXPECT_FALSE(single.models[0].find("p99")->is_judged);
  EXPECT_FALSE(single.models[0].find("p99")->differs);
  // The slowest of 200 frames and of 50: no tail of both.
  for (BenchResult& result : b.results) result.models[0].inference->n = 50;
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("p99")->is_judged);
}

double run_metrics_latency(const ComparedModel& model) {
  return find_run_metric("latency")->value(model.figures()).value_or(0);
}

// Of one thing at all: the figures that make the verdict have 5 % of false alarms together, however much they
// have in common.
TEST(CompareRuns, AllThatIsJudgedKeepsThePromiseTogether) {
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
          // As of a run that is kept: the errors by frames are no part of this, and take their time.
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

// Who else maps the libraries at that moment.
TEST(CompareRuns, AProportionalShareDependsOnOtherProcesses) {
  Runs a, b;
  a.add(1'000'000, 48 << 20, 1);
  b.add(1'000'000, 48 << 20, 2);
  for (Runs* runs : {&a, &b}) runs->results[0].models[0].memory.file_backed_peak = Bytes{28 << 20};
  a.results[0].models[0].memory.pss_run_peak = Bytes{44 << 20};
  b.results[0].models[0].memory.pss_run_peak = Bytes{34 << 20};
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("pss_run_peak")->differs);
  b.results[0].models[0].memory.pss_run_peak = Bytes{90 << 20};
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("pss_run_peak")->differs);
}

// Of several runs what most of them have, and not the first.
TEST(CompareRuns, LayersAreThoseOfMostRuns) {
  Runs a, b;
  for (unsigned i = 0; i < 3; ++i) {
    a.add(1'000'000, 50 << 20, i);
    b.add(1'000'000, 50 << 20, 10 + i);
    for (Runs* runs : {&a, &b}) {
      NodeMemory node;
      node.name = "conv";
      node.activations = Bytes{runs == &b && i == 0 ? 9000 : 1000};
      runs->results[i].models[0].layers.emplace();
      runs->results[i].models[0].layers->nodes = {node};
    }
  }
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].nodes.empty());
  b.results[1].models[0].layers->nodes[0].activations = Bytes{9000};
  ASSERT_EQ(compare_runs(a.side, b.side).models[0].nodes.size(), 1);
  EXPECT_EQ(compare_runs(a.side, b.side).models[0].nodes[0].change(), 8000);
}

// A failed run left no fingerprint, and the files are alike but for a byte.
TEST(CompareRuns, WithoutAFingerprintTheNameAndTheExactSizeTell) {
  Runs a, b;
  a.add(1'000'000, 50 << 20, 1);
  b.add(1'000'000, 50 << 20, 2);
  b.side[0].models[0].fingerprint.clear();
  a.results[0].models[0].path = "/base/bodypix_s16.onnx";
  b.results[0].models[0].path = "/branch/bodypix_s8.onnx";
  a.results[0].models[0].file_size = Bytes{2'438'662};
  b.results[0].models[0].file_size = Bytes{2'438'661};
  const auto facts = compare_runs(a.side, b.side).models[0].facts;
  ASSERT_EQ(facts.size(), 2);
  EXPECT_EQ(facts[0].after, "bodypix_s8.onnx");
  EXPECT_EQ(facts[1].after, "2438661 B");
  b.results[0].models[0].path = "/branch/bodypix_s16.onnx";
  EXPECT_EQ(compare_runs(a.side, b.side).models[0].facts.size(), 1);
}

TEST(CompareRuns, ACertainChangeOfNextToNothingIsNoNews) {
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

TEST(CompareRuns, ModelsArePairedByNameAndTheOthersAreNamed) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1, "old");
  b.add(1'000'000, 1 << 20, 1, "new");
  // One each: the same one. What it is called explains no figure.
  const RunComparison renamed = compare_runs(a.side, b.side);
  EXPECT_EQ(renamed.models[0].name_after, b.side[0].models[0].result->name);
  EXPECT_TRUE(renamed.models[0].facts.empty());
  ASSERT_EQ(renamed.caveats.size(), 1);
  EXPECT_THAT(renamed.caveats[0], HasSubstr("renamed"));
  ModelResult other = b.results[0].models[0];
  other.name = "other";
  b.side[0].models.push_back({&other, {}, ""});
  const RunComparison found = compare_runs(a.side, b.side);
  EXPECT_TRUE(found.models.empty());
  ASSERT_EQ(found.only_before.size(), 1);
  EXPECT_EQ(found.only_before[0].name, "old");
  EXPECT_TRUE(found.only_before[0].is_worse());
  ASSERT_EQ(found.only_after.size(), 2);
  EXPECT_EQ(found.only_after[0].name, "new");
  EXPECT_EQ(found.only_after[1].name, "other");
}

TEST(CompareRuns, SaysWhatElseChanged) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1);
  b.add(1'000'000, 1 << 20, 1);
  b.side[0].models[0].fingerprint = "beef";
  b.results[0].models[0].settings.threads = 4;
  b.results[0].models[0].backend_version = "2";
  a.results[0].models[0].backend_version = "1";
  a.results[0].host.cpu_model = "Cortex";
  b.results[0].host.cpu_model = "Denver";
  a.results[0].system = {{"clock_hz.cpu0", 9, 1e9, 1.5e9, 2e9}, {"throttled", 9, 0, 0, 0}};
  b.results[0].system = {{"clock_hz.cpu0", 9, 1e9, 1.2e9, 2e9}, {"throttled", 9, 0, 0.5, 1}};
  const RunComparison found = compare_runs(a.side, b.side);
  std::vector<std::string> what;
  for (const FactChange& fact : found.models[0].facts) what.push_back(fact.what);
  EXPECT_THAT(what, testing::ElementsAre("model file", "version of the runtime", "settings"));
  EXPECT_EQ(found.models[0].facts[2].after, "threads=4");  // and not those that are the same
  what.clear();
  for (const FactChange& fact : found.facts) what.push_back(fact.what);
  EXPECT_THAT(what, testing::ElementsAre("processor", "clock cpu0", "throttling"));
}

// The fingerprint has the path in it: of two checkouts side by side it says nothing.
TEST(CompareRuns, TheSameSourceInTwoCheckoutsIsNoCause) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1);
  b.add(1'000'000, 1 << 20, 1);
  const auto source = [](Runs& runs, const char* path, const char* fingerprint, std::int64_t frames) {
    runs.results[0].source.emplace();
    runs.results[0].source->spec.path = path;
    runs.results[0].source->fingerprint = fingerprint;
    runs.results[0].source->total_frames = frames;
  };
  source(a, "/base/photos", "aa", 20);
  source(b, "/branch/photos/", "bb", 20);
  EXPECT_TRUE(compare_runs(a.side, b.side).facts.empty());
  source(b, "/branch/photos", "bb", 21);
  ASSERT_EQ(compare_runs(a.side, b.side).facts.size(), 1);
  EXPECT_EQ(compare_runs(a.side, b.side).facts[0].after, "21 frames of photos");
  source(b, "/base/photos", "bb", 20);
  EXPECT_EQ(compare_runs(a.side, b.side).facts.size(), 1) << "files of one path that changed";
}

// What most runs of a side say counts, and the median of a clock: one run in ten explains nothing.
TEST(CompareRuns, FactsAreThoseOfMostRuns) {
  Runs a, b;
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000, 1 << 20, i);
    b.add(1'000'000, 1 << 20, 10 + i);
    a.results[i].host.power_mode = "MAXN";
    b.results[i].host.power_mode = i == 0 ? "MAXN" : "MODE_15W";
    a.results[i].system = {{"clock_hz.cpu0", 9, 1e9, 1.5e9, 2e9}, {"clock_hz.cpu1", 9, 1e9, 1.5e9, 2e9}};
    b.results[i].system = {{"clock_hz.cpu0", 9, 1e9, i == 0 ? 0.8e9 : 1.5e9, 2e9},
                           {"clock_hz.cpu1", 9, 1e9, i == 0 ? 1.5e9 : 0.8e9, 2e9}};
  }
  const RunComparison found = compare_runs(a.side, b.side);
  ASSERT_EQ(found.facts.size(), 2);
  EXPECT_EQ(found.facts[0].what, "power mode");
  EXPECT_EQ(found.facts[0].before, "MAXN");
  EXPECT_EQ(found.facts[0].after, "MODE_15W in 4 of 5 runs");
  EXPECT_EQ(found.facts[1].what, "clock cpu1");
  EXPECT_THAT(found.caveats,
              testing::ElementsAre(
                  HasSubstr("the runs of B are not of one thing: power mode is MODE_15W in 4 of 5 runs")));
}

TEST(CompareRuns, RunsOfSeveralMachinesOnOneSideAreTold) {
  Runs a, b;
  for (const char* board : {"Orin Nano", "Orin Nano", "Xavier NX"}) {
    a.add(1'000'000, 1 << 20, 1);
    a.results.back().host.board = board;
  }
  b.add(1'000'000, 1 << 20, 1);
  b.results.back().host.board = "Orin Nano";
  const RunComparison found = compare_runs(a.side, b.side);
  EXPECT_THAT(found.caveats,
              testing::ElementsAre(HasSubstr("board is Orin Nano in 2 of 3 runs, and Xavier NX")));
  EXPECT_TRUE(found.facts.empty());
}

TEST(CompareRuns, RunsOfDifferentThingsOnOneSideAreTold) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1);
  a.add(1'000'000, 1 << 20, 2);
  a.side[1].models[0].fingerprint = "beef";
  b.add(1'000'000, 1 << 20, 3);
  b.results[0].complete = false;
  const RunComparison found = compare_runs(a.side, b.side);
  ASSERT_EQ(found.caveats.size(), 2);
  EXPECT_THAT(found.caveats[0], HasSubstr("not of one thing: det: model file"));
  EXPECT_TRUE(found.has_mixed_side);
  EXPECT_THAT(found.caveats[1], HasSubstr("incomplete"));
}

}  // namespace
}  // namespace headroom::analysis
