// Separates growth of a run's memory from chance: pages of files, huge pages, addresses, layers.
#include "comparison/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comparison/metric_change.h"
#include "runs_of_a_model.h"

namespace headroom::comparison {
namespace {

using testing::HasSubstr;

// One huge page in the bare runtime is not growth of the model. Several huge pages are not chance.
TEST(CompareRuns, IgnoresRuntimeDifferenceUpToAHugePage) {
  Runs a, b;
  a.add(1'000'000, 50 << 20, 1);
  b.add(1'000'000, 51 << 20, 2);
  a.results[0].models[0].memory.runtime = Bytes{26 << 20};
  b.results[0].models[0].memory.runtime = Bytes{26 << 20};
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].memory.runtime = Bytes{28 << 20};
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].backend_version = "another";  // the runtime itself may have grown
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].backend_version = "";
  b.results[0].models[0].memory.runtime = Bytes{36 << 20};  // the same growth is in the run's peak
  b.results[0].models[0].memory.run_peak = Bytes{60 << 20};
  const RunComparison grown = compare_runs(a.side, b.side);
  EXPECT_TRUE(grown.models[0].find("run_peak")->differs);
  EXPECT_TRUE(grown.models[0].find("runtime")->differs);
}

// ONNX Runtime 1.29 numbers these nodes, with different numbers in each process.
TEST(CompareRuns, ComparesNumberedNodesByOperator) {
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

// The page cache determines how many pages of a library are resident. 3 MiB more of them are not growth; 3
// MiB more of anonymous memory are.
TEST(CompareRuns, FilePagesAreNotGrowth) {
  Runs a, b;
  a.add(1'000'000, 50 << 20, 1);
  b.add(1'000'000, 53 << 20, 2);
  a.results[0].models[0].memory.file_backed_peak = Bytes{30 << 20};
  b.results[0].models[0].memory.file_backed_peak = Bytes{33 << 20};
  const RunComparison mapped = compare_runs(a.side, b.side);
  EXPECT_FALSE(mapped.models[0].find("run_peak")->differs);
  EXPECT_TRUE(mapped.models[0].find("run_peak")->is_of_file_pages);
  EXPECT_THAT(mapped.caveats, testing::ElementsAre(HasSubstr("the page cache decides")));
  b.results[0].models[0].memory.file_backed_peak = Bytes{30 << 20};
  const RunComparison grown = compare_runs(a.side, b.side);
  EXPECT_TRUE(grown.models[0].find("run_peak")->differs);
  EXPECT_TRUE(grown.caveats.empty());
  // A short run ended between two samples and missed 10 MiB of file pages. These explain nothing.
  a.results[0].models[0].memory.file_backed_peak = Bytes{20 << 20};
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].memory.run_peak = Bytes{50 << 20};
  const RunComparison same = compare_runs(a.side, b.side);
  EXPECT_FALSE(same.models[0].find("run_peak")->differs);
  EXPECT_LT(same.models[0].find("run_peak")->high, 1.03);
}

// By chance, one run in six of a model has 2 MiB more. 1 MiB or 4 MiB more do not occur by chance.
TEST(CompareRuns, HugePageStepIsGrowthOnlyInSeveralRuns) {
  Runs a, b;
  a.add(1'000'000, 66 << 20, 1);
  b.add(1'000'000, 68 << 20, 2);
  const RunComparison step = compare_runs(a.side, b.side);
  EXPECT_FALSE(step.models[0].find("run_peak")->differs);
  EXPECT_THAT(step.caveats, testing::ElementsAre(HasSubstr("three or more runs per side")));
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

// At fixed addresses two equal runs have the same heap. A step is then growth, and one run per side is
// enough. Another model has another heap layout, and all of its runs share that layout.
TEST(CompareRuns, StepAtFixedAddressesIsGrowth) {
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

// With a fixed layout, either all runs have the huge page step or none has. A change below one huge page is
// growth, however many runs there are.
TEST(CompareRuns, MoreRunsOfOneLayoutDoNotHideGrowth) {
  Runs a, b;
  for (unsigned i = 0; i < 5; ++i) {
    a.add(1'000'000, 66 << 20, i);
    b.add(1'000'000, (66 << 20) + (1 << 20), 20 + i);
    for (Runs* runs : {&a, &b}) runs->results[i].models[0].memory.fixed_addresses = true;
    b.results[i].models[0].backend_version = "2";
    EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs) << i + 1;
  }
}

// A new run that lies within the spread of the kept runs.
TEST(CompareRuns, ManyRunsGiveSpreadForSinglePeak) {
  Runs a, b;
  for (const int peak : {56, 62, 65, 68, 74}) a.add(1'000'000, peak << 20, static_cast<unsigned>(peak));
  b.add(1'000'000, 71 << 20, 30);
  EXPECT_FALSE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
  b.results[0].models[0].memory.run_peak = Bytes{140 << 20};
  EXPECT_TRUE(compare_runs(a.side, b.side).models[0].find("run_peak")->differs);
}

TEST(CompareRuns, GrowthFromZeroHasNoRatio) {
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

// A proportional share depends on the other processes that map the same libraries.
TEST(CompareRuns, IgnoresProportionalShareOfFilePages) {
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

// Layers come from most of the runs, not from the first.
TEST(CompareRuns, LayersComeFromMostRuns) {
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

}  // namespace
}  // namespace headroom::comparison
