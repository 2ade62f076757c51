// Differences between runs that may be the cause of a change, and whether the runs of each side are alike.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comparison/metric_change.h"
#include "comparison/run_comparison.h"
#include "runs_of_a_model.h"

namespace headroom::comparison {
namespace {

using testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<FactChange>& facts) {
  std::vector<std::string> names;
  for (const FactChange& fact : facts) names.push_back(fact.what);
  return names;
}

// Some facts are known only after a model was loaded. Their absence is not the cause of a failure.
TEST_F(CompareRuns, FactsMissingAfterFailureAreNotItsCause) {
  add(50 << 20, 50 << 20);
  ModelResult &came_through = a.results[0].models[0], &fell = b.results[0].models[0];
  came_through.backend = fell.backend = "onnxruntime";
  came_through.confidence = 0.25;
  came_through.iou = 0.45;
  came_through.task = "detect";
  came_through.input = "float32[1,3,64,64]";
  came_through.backend_version = "1.0";
  fell.status = ModelStatus::oom;
  fell.frames = 3;
  const RunComparison found = compare();
  EXPECT_TRUE(found.models[0].facts.empty()) << found.models[0].facts.front().what;
  fell.status = ModelStatus::ok;
  fell.frames = 200;
  EXPECT_EQ(compare().models[0].facts.size(), 2);  // now they are changed thresholds
}

TEST_F(CompareRuns, ReportsFramesHeldInMemory) {
  add(62 << 20, 54 << 20);
  a.results[0].models[0].memory.frames = Bytes{15'552'000};
  b.results[0].models[0].memory.frames = Bytes{7'776'000};
  EXPECT_THAT(names_of(compare().models[0].facts), testing::ElementsAre("frames held in memory"));
}

// A failed run has no fingerprint, and the file sizes differ by one byte.
TEST_F(CompareRuns, ComparesNameAndSizeWithoutFingerprint) {
  add(50 << 20, 50 << 20);
  b.side[0].models[0].fingerprint.clear();
  a.results[0].models[0].path = "/base/bodypix_s16.onnx";
  b.results[0].models[0].path = "/branch/bodypix_s8.onnx";
  a.results[0].models[0].file_size = Bytes{2'438'662};
  b.results[0].models[0].file_size = Bytes{2'438'661};
  const auto facts = compare().models[0].facts;
  ASSERT_EQ(facts.size(), 2);
  EXPECT_EQ(facts[0].after, "bodypix_s8.onnx");
  EXPECT_EQ(facts[1].after, "2438661 B");
  b.results[0].models[0].path = "/branch/bodypix_s16.onnx";
  EXPECT_EQ(compare().models[0].facts.size(), 1);
}

TEST_F(CompareRuns, PairsModelsByNameAndListsTheRest) {
  a.add(1'000'000, 1 << 20, 1, "old");
  b.add(1'000'000, 1 << 20, 1, "new");
  // One model on each side: they are paired. The rename is not a cause.
  const RunComparison renamed = compare();
  EXPECT_EQ(renamed.models[0].name_after, b.side[0].models[0].result->name);
  EXPECT_TRUE(renamed.models[0].facts.empty());
  ASSERT_EQ(renamed.caveats.size(), 1);
  EXPECT_THAT(renamed.caveats[0], HasSubstr("is named"));
  ModelResult other = b.results[0].models[0];
  other.name = "other";
  b.side[0].models.push_back({&other, {}, ""});
  const RunComparison found = compare();
  EXPECT_TRUE(found.models.empty());
  ASSERT_EQ(found.only_before.size(), 1);
  EXPECT_EQ(found.only_before[0].name, "old");
  EXPECT_TRUE(found.only_before[0].is_worse());
  ASSERT_EQ(found.only_after.size(), 2);
  EXPECT_EQ(found.only_after[0].name, "new");
  EXPECT_EQ(found.only_after[1].name, "other");
}

TEST_F(CompareRuns, ListsOtherChanges) {
  add(1 << 20, 1 << 20);
  b.side[0].models[0].fingerprint = "beef";
  b.results[0].models[0].settings.threads = 4;
  b.results[0].models[0].backend_version = "2";
  a.results[0].models[0].backend_version = "1";
  a.results[0].host.cpu_model = "Cortex";
  b.results[0].host.cpu_model = "Denver";
  a.results[0].system = {{"clock_hz.cpu0", 9, 1e9, 1.5e9, 2e9}, {"throttled", 9, 0, 0, 0}};
  b.results[0].system = {{"clock_hz.cpu0", 9, 1e9, 1.2e9, 2e9}, {"throttled", 9, 0, 0.5, 1}};
  const RunComparison found = compare();
  EXPECT_THAT(names_of(found.models[0].facts),
              testing::ElementsAre("model file", "version of the runtime", "settings"));
  EXPECT_EQ(found.models[0].facts[2].after, "threads=4");  // only settings that differ
  EXPECT_THAT(names_of(found.facts), testing::ElementsAre("processor", "clock cpu0", "throttling"));
  a.results[0].options.emplace();
  b.results[0].options.emplace().in_step = "ci";
  EXPECT_EQ(compare().facts[0].what, "--in-step");
}

// The fingerprint includes the path, so it always differs between two checkouts.
TEST_F(CompareRuns, SameSourceInTwoCheckoutsIsNotACause) {
  add(1 << 20, 1 << 20);
  const auto source = [](Runs& runs, const char* path, const char* fingerprint, std::int64_t frames) {
    runs.results[0].source.emplace();
    runs.results[0].source->spec.path = path;
    runs.results[0].source->fingerprint = fingerprint;
    runs.results[0].source->total_frames = frames;
  };
  source(a, "/base/photos", "aa", 20);
  source(b, "/branch/photos/", "bb", 20);
  EXPECT_TRUE(compare().facts.empty());
  source(b, "/branch/photos", "bb", 21);
  ASSERT_EQ(compare().facts.size(), 1);
  EXPECT_EQ(compare().facts[0].after, "21 frames of photos");
  source(b, "/base/photos", "bb", 20);
  EXPECT_EQ(compare().facts.size(), 1) << "files of one path that changed";
}

// A side's fact is that of most of its runs, and for a clock the median. One deviating run explains nothing.
TEST_F(CompareRuns, FactsComeFromMostRuns) {
  for (unsigned i = 0; i < 5; ++i) {
    add(1 << 20, 1 << 20);
    a.results[i].host.power_mode = "MAXN";
    b.results[i].host.power_mode = i == 0 ? "MAXN" : "MODE_15W";
    a.results[i].system = {{"clock_hz.cpu0", 9, 1e9, 1.5e9, 2e9}, {"clock_hz.cpu1", 9, 1e9, 1.5e9, 2e9}};
    b.results[i].system = {{"clock_hz.cpu0", 9, 1e9, i == 0 ? 0.8e9 : 1.5e9, 2e9},
                           {"clock_hz.cpu1", 9, 1e9, i == 0 ? 1.5e9 : 0.8e9, 2e9}};
  }
  const RunComparison found = compare();
  ASSERT_THAT(names_of(found.facts), testing::ElementsAre("power mode", "clock cpu1"));
  EXPECT_EQ(found.facts[0].before, "MAXN");
  EXPECT_EQ(found.facts[0].after, "MODE_15W in 4 of 5 runs");
  EXPECT_THAT(found.caveats,
              testing::ElementsAre(
                  HasSubstr("the runs of B differ in their setup: power mode is MODE_15W in 4 of 5 runs")));
}

TEST_F(CompareRuns, WarnsOfSeveralMachinesOnOneSide) {
  for (const char* board : {"Orin Nano", "Orin Nano", "Xavier NX"}) {
    a.add(1'000'000, 1 << 20, 1);
    a.results.back().host.board = board;
  }
  b.add(1'000'000, 1 << 20, 1);
  b.results.back().host.board = "Orin Nano";
  const RunComparison found = compare();
  EXPECT_THAT(found.caveats,
              testing::ElementsAre(HasSubstr("board is Orin Nano in 2 of 3 runs, but Xavier NX")));
  EXPECT_TRUE(found.facts.empty());
}

TEST_F(CompareRuns, WarnsOfDifferentModelsOnOneSide) {
  a.add(1'000'000, 1 << 20, 1);
  a.add(1'000'000, 1 << 20, 2);
  a.side[1].models[0].fingerprint = "beef";
  b.add(1'000'000, 1 << 20, 3);
  b.results[0].complete = false;
  const RunComparison found = compare();
  ASSERT_EQ(found.caveats.size(), 2);
  EXPECT_THAT(found.caveats[0], HasSubstr("differ in their setup: det: model file"));
  EXPECT_TRUE(found.has_mixed_side);
  EXPECT_THAT(found.caveats[1], HasSubstr("incomplete"));
}

// One huge page in the bare runtime is not growth of the model. Several huge pages are not chance.
TEST_F(CompareRuns, IgnoresRuntimeDifferenceUpToAHugePage) {
  add(50 << 20, 51 << 20);
  a.results[0].models[0].memory.runtime = Bytes{26 << 20};
  b.results[0].models[0].memory.runtime = Bytes{26 << 20};
  EXPECT_TRUE(differs("run_peak"));
  b.results[0].models[0].memory.runtime = Bytes{28 << 20};
  EXPECT_FALSE(differs("run_peak"));
  b.results[0].models[0].backend_version = "another";  // the runtime itself may have grown
  EXPECT_TRUE(differs("run_peak"));
  b.results[0].models[0].backend_version = "";
  b.results[0].models[0].memory.runtime = Bytes{36 << 20};  // the same growth is in the run's peak
  b.results[0].models[0].memory.run_peak = Bytes{60 << 20};
  const RunComparison grown = compare();
  EXPECT_TRUE(grown.models[0].find("run_peak")->differs);
  EXPECT_TRUE(grown.models[0].find("runtime")->differs);
}

// ONNX Runtime 1.29 numbers these nodes, with different numbers in each process.
TEST_F(CompareRuns, ComparesNumberedNodesByOperator) {
  add(50 << 20, 50 << 20);
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
  EXPECT_TRUE(compare().models[0].nodes.empty());
  b.results[0].models[0].layers->nodes.push_back(node("ReorderOutput_token_7", "ReorderOutput", 4096));
  const auto changes = compare().models[0].nodes;
  ASSERT_EQ(changes.size(), 1);
  EXPECT_EQ(changes[0].name, "ReorderOutput (added by the runtime, all)");
  EXPECT_EQ(changes[0].change(), 4096);
}

// The page cache determines how many pages of a library are resident. 3 MiB more of them are not growth; 3
// MiB more of anonymous memory are.
TEST_F(CompareRuns, FilePagesAreNotGrowth) {
  add(50 << 20, 53 << 20);
  a.results[0].models[0].memory.file_backed_peak = Bytes{30 << 20};
  b.results[0].models[0].memory.file_backed_peak = Bytes{33 << 20};
  const RunComparison mapped = compare();
  EXPECT_FALSE(mapped.models[0].find("run_peak")->differs);
  EXPECT_TRUE(mapped.models[0].find("run_peak")->is_of_file_pages);
  EXPECT_THAT(mapped.caveats, testing::ElementsAre(HasSubstr("the page cache decides")));
  b.results[0].models[0].memory.file_backed_peak = Bytes{30 << 20};
  const RunComparison grown = compare();
  EXPECT_TRUE(grown.models[0].find("run_peak")->differs);
  EXPECT_TRUE(grown.caveats.empty());
  // A short run ended between two samples and missed 10 MiB of file pages. These explain nothing.
  a.results[0].models[0].memory.file_backed_peak = Bytes{20 << 20};
  EXPECT_TRUE(differs("run_peak"));
  b.results[0].models[0].memory.run_peak = Bytes{50 << 20};
  const RunComparison same = compare();
  EXPECT_FALSE(same.models[0].find("run_peak")->differs);
  EXPECT_LT(same.models[0].find("run_peak")->high, 1.03);
}

// By chance, one run in six of a model has 2 MiB more. 1 MiB or 4 MiB more do not occur by chance.
TEST_F(CompareRuns, HugePageStepIsGrowthOnlyInSeveralRuns) {
  add(66 << 20, 68 << 20);
  const RunComparison step = compare();
  EXPECT_FALSE(step.models[0].find("run_peak")->differs);
  EXPECT_THAT(step.caveats, testing::ElementsAre(HasSubstr("three or more runs per side")));
  for (const int mebibytes : {67, 70}) {
    b.results[0].models[0].memory.run_peak = Bytes{mebibytes << 20};
    EXPECT_TRUE(differs("run_peak")) << mebibytes;
  }
  for (unsigned i = 0; i < 3; ++i) add(66 << 20, 68 << 20);
  b.results[0].models[0].memory.run_peak = Bytes{68 << 20};
  EXPECT_TRUE(differs("run_peak"));
}

// At fixed addresses two equal runs have the same heap. A step is then growth, and one run per side is
// enough. Another model has another heap layout, and all of its runs share that layout.
TEST_F(CompareRuns, StepAtFixedAddressesIsGrowth) {
  add(66 << 20, 68 << 20);
  for (Runs* runs : {&a, &b}) runs->results[0].models[0].memory.fixed_addresses = true;
  const RunComparison one = compare();
  EXPECT_TRUE(one.models[0].find("run_peak")->differs);
  EXPECT_TRUE(one.caveats.empty());
  for (unsigned i = 1; i < 5; ++i) {
    add(66 << 20, 68 << 20);
    for (Runs* runs : {&a, &b}) runs->results[i].models[0].memory.fixed_addresses = true;
  }
  EXPECT_TRUE(differs("run_peak"));
  for (ComparedRun& run : b.side) run.models[0].fingerprint = "beef";
  const RunComparison other = compare();
  EXPECT_FALSE(other.models[0].find("run_peak")->differs);
  EXPECT_THAT(other.caveats, testing::ElementsAre(HasSubstr("headroom bench --aslr")));
}

// With a fixed layout, all runs have the huge page step or none. A smaller change is growth in any number.
TEST_F(CompareRuns, MoreRunsOfOneLayoutDoNotHideGrowth) {
  for (unsigned i = 0; i < 5; ++i) {
    add(66 << 20, (66 << 20) + (1 << 20));
    for (Runs* runs : {&a, &b}) runs->results[i].models[0].memory.fixed_addresses = true;
    b.results[i].models[0].backend_version = "2";
    EXPECT_TRUE(differs("run_peak")) << i + 1;
  }
}

TEST_F(CompareRuns, GrowthFromZeroHasNoRatio) {
  add(0, 50 << 20);
  const RunComparison found = compare();
  const MetricChange* peak = found.models[0].find("run_peak");
  EXPECT_FALSE(peak->has_ratio);
  EXPECT_TRUE(peak->differs);
  EXPECT_FALSE(peak->is_noise());
  EXPECT_LT(peak->low_change, 50 << 20);
  EXPECT_GT(peak->low_change, 49 << 20);
  EXPECT_GT(peak->high_change, 50 << 20);
}

// A proportional share depends on the other processes that map the same libraries.
TEST_F(CompareRuns, IgnoresProportionalShareOfFilePages) {
  add(48 << 20, 48 << 20);
  for (Runs* runs : {&a, &b}) runs->results[0].models[0].memory.file_backed_peak = Bytes{28 << 20};
  a.results[0].models[0].memory.pss_run_peak = Bytes{44 << 20};
  b.results[0].models[0].memory.pss_run_peak = Bytes{34 << 20};
  EXPECT_FALSE(differs("pss_run_peak"));
  b.results[0].models[0].memory.pss_run_peak = Bytes{90 << 20};
  EXPECT_TRUE(differs("pss_run_peak"));
}

// Layers come from most of the runs, not from the first.
TEST_F(CompareRuns, LayersComeFromMostRuns) {
  for (unsigned i = 0; i < 3; ++i) {
    add(50 << 20, 50 << 20);
    for (Runs* runs : {&a, &b}) {
      NodeMemory node;
      node.name = "conv";
      node.activations = Bytes{runs == &b && i == 0 ? 9000 : 1000};
      runs->results[i].models[0].layers.emplace();
      runs->results[i].models[0].layers->nodes = {node};
    }
  }
  EXPECT_TRUE(compare().models[0].nodes.empty());
  b.results[1].models[0].layers->nodes[0].activations = Bytes{9000};
  ASSERT_EQ(compare().models[0].nodes.size(), 1);
  EXPECT_EQ(compare().models[0].nodes[0].change(), 8000);
}

}  // namespace
}  // namespace headroom::comparison
