// Differences between runs that may be the cause of a change, and whether the runs of each side are alike.
#include "comparison/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runs_of_a_model.h"

namespace headroom::comparison {
namespace {

using testing::HasSubstr;

// Some facts are known only after a model was loaded. Their absence is not the cause of a failure.
TEST(CompareRuns, FactsMissingAfterFailureAreNotItsCause) {
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
  EXPECT_EQ(compare_runs(a.side, b.side).models[0].facts.size(),
            2);  // now they are changed thresholds
}

TEST(CompareRuns, ReportsFramesHeldInMemory) {
  Runs a, b;
  a.add(1'000'000, 62 << 20, 1);
  b.add(1'000'000, 54 << 20, 2);
  a.results[0].models[0].memory.frames = Bytes{15'552'000};
  b.results[0].models[0].memory.frames = Bytes{7'776'000};
  const auto facts = compare_runs(a.side, b.side).models[0].facts;
  ASSERT_EQ(facts.size(), 1U);
  EXPECT_EQ(facts[0].what, "frames held in memory");
}

// A failed run has no fingerprint, and the file sizes differ by one byte.
TEST(CompareRuns, ComparesNameAndSizeWithoutFingerprint) {
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

TEST(CompareRuns, PairsModelsByNameAndListsTheRest) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1, "old");
  b.add(1'000'000, 1 << 20, 1, "new");
  // One model on each side: they are paired. The rename is not a cause.
  const RunComparison renamed = compare_runs(a.side, b.side);
  EXPECT_EQ(renamed.models[0].name_after, b.side[0].models[0].result->name);
  EXPECT_TRUE(renamed.models[0].facts.empty());
  ASSERT_EQ(renamed.caveats.size(), 1);
  EXPECT_THAT(renamed.caveats[0], HasSubstr("is named"));
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

TEST(CompareRuns, ListsOtherChanges) {
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
  EXPECT_EQ(found.models[0].facts[2].after, "threads=4");  // only settings that differ
  what.clear();
  for (const FactChange& fact : found.facts) what.push_back(fact.what);
  EXPECT_THAT(what, testing::ElementsAre("processor", "clock cpu0", "throttling"));
}

// The fingerprint includes the path, so it always differs between two checkouts.
TEST(CompareRuns, SameSourceInTwoCheckoutsIsNotACause) {
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

// A side's fact is that of most of its runs, and for a clock the median. One deviating run explains nothing.
TEST(CompareRuns, FactsComeFromMostRuns) {
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
                  HasSubstr("the runs of B differ in their setup: power mode is MODE_15W in 4 of 5 runs")));
}

TEST(CompareRuns, WarnsOfSeveralMachinesOnOneSide) {
  Runs a, b;
  for (const char* board : {"Orin Nano", "Orin Nano", "Xavier NX"}) {
    a.add(1'000'000, 1 << 20, 1);
    a.results.back().host.board = board;
  }
  b.add(1'000'000, 1 << 20, 1);
  b.results.back().host.board = "Orin Nano";
  const RunComparison found = compare_runs(a.side, b.side);
  EXPECT_THAT(found.caveats,
              testing::ElementsAre(HasSubstr("board is Orin Nano in 2 of 3 runs, but Xavier NX")));
  EXPECT_TRUE(found.facts.empty());
}

TEST(CompareRuns, WarnsOfDifferentModelsOnOneSide) {
  Runs a, b;
  a.add(1'000'000, 1 << 20, 1);
  a.add(1'000'000, 1 << 20, 2);
  a.side[1].models[0].fingerprint = "beef";
  b.add(1'000'000, 1 << 20, 3);
  b.results[0].complete = false;
  const RunComparison found = compare_runs(a.side, b.side);
  ASSERT_EQ(found.caveats.size(), 2);
  EXPECT_THAT(found.caveats[0], HasSubstr("differ in their setup: det: model file"));
  EXPECT_TRUE(found.has_mixed_side);
  EXPECT_THAT(found.caveats[1], HasSubstr("incomplete"));
}

}  // namespace
}  // namespace headroom::comparison
