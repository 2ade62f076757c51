#include "bench/pool_phase.h"

#include <gtest/gtest.h>

namespace headroom::bench {
namespace {

// What the report of a model that ran alone has: resident, with the runtime and 16 MiB of frames.
ModelResult alone() {
  ModelResult result;
  result.memory.runtime = mebibytes(30);
  result.memory.load_peak = mebibytes(70);
  result.memory.run_peak = mebibytes(120);
  result.memory.frames = mebibytes(16);
  result.phases = {{Phase::start, {1}, mebibytes(5)},
                   {Phase::runtime_loaded, {2}, mebibytes(20)},
                   {Phase::model_loaded, {3}, mebibytes(28)},
                   {Phase::warm, {4}, mebibytes(31)},
                   {Phase::running, {5}, mebibytes(32)}};
  return result;
}

TEST(TakenAlone, LeavesOutTheRuntimeFramesAndPagesOfFiles) {
  const TakenAlone taken = taken_alone(alone(), "cpu");
  EXPECT_EQ(taken.run_peak, mebibytes(120 - 30 - 16 - 12));
  EXPECT_EQ(taken.load_peak, taken.run_peak) << "a pool warms it while it is loaded";
}

TEST(TakenAlone, ALoadThatTakesMoreThanARunIsItsPeak) {
  ModelResult result = alone();
  result.memory.run_peak = mebibytes(80);
  const TakenAlone taken = taken_alone(result, "cpu");
  EXPECT_EQ(taken.run_peak, mebibytes(80 - 30 - 16 - 12));
  EXPECT_EQ(taken.load_peak, mebibytes(70 - 30 - 8));
}

TEST(TakenAlone, IsWithItsRuntimeInAProcessOfItsOwn) {
  EXPECT_EQ(taken_alone(alone(), "cpu", true).run_peak, mebibytes(120 - 16 - 32));
}

// It is the larger one then, and a budget of it holds.
TEST(TakenAlone, PagesOfFilesThatNobodyCountedCountInFull) {
  ModelResult result = alone();
  for (PhaseMark& mark : result.phases) mark.file_backed.reset();
  EXPECT_EQ(taken_alone(result, "cpu").run_peak, mebibytes(120 - 30 - 16));
}

TEST(TakenAlone, IsNothingWhereNothingWasMeasured) {
  EXPECT_EQ(taken_alone({}, "cpu").load_peak, Bytes{});
  EXPECT_EQ(taken_alone({}, "cpu").run_peak, Bytes{});
}

TEST(TakenAlone, OnAGpuIsWhatItTookThere) {
  ModelResult result = alone();
  GpuMemory gpu;
  gpu.device = "cuda:1";
  gpu.runtime = mebibytes(300);
  gpu.load_peak = mebibytes(500);
  gpu.run_peak = mebibytes(450);
  result.gpu_memory = {gpu};
  EXPECT_EQ(taken_alone(result, "cuda:1").load_peak, mebibytes(200));
  EXPECT_EQ(taken_alone(result, "cuda:1").run_peak, mebibytes(150));
  EXPECT_EQ(taken_alone(result, "cuda:0").load_peak, Bytes{});
}

}  // namespace
}  // namespace headroom::bench
