#include "bench/conductor/pool_phase.h"

#include <gtest/gtest.h>

namespace headroom::bench {
namespace {

// The result of a model that ran alone: resident sizes, with the runtime and 16 MiB of frames.
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

TEST(PeaksAlone, LeaveOutRuntimeFramesAndFilePages) {
  const PeaksAlone peaks = peaks_alone(alone(), "cpu");
  EXPECT_EQ(peaks.run_peak, mebibytes(120 - 30 - 16 - 12));
  EXPECT_EQ(peaks.load_peak, peaks.run_peak) << "in a pool, a load includes the warm-up";
}

TEST(PeaksAlone, KeepsALoadPeakAboveTheRunPeak) {
  ModelResult result = alone();
  result.memory.run_peak = mebibytes(80);
  const PeaksAlone peaks = peaks_alone(result, "cpu");
  EXPECT_EQ(peaks.run_peak, mebibytes(80 - 30 - 16 - 12));
  EXPECT_EQ(peaks.load_peak, mebibytes(70 - 30 - 8));
}

TEST(PeaksAlone, IncludesTheRuntimeOfAnIsolatedModel) {
  EXPECT_EQ(peaks_alone(alone(), "cpu", true).run_peak, mebibytes(120 - 16 - 32));
}

// The figure is then larger, which is safe for a budget.
TEST(PeaksAlone, CountsFilePagesIfTheirNumberIsUnknown) {
  ModelResult result = alone();
  for (PhaseMark& mark : result.phases) mark.file_backed.reset();
  EXPECT_EQ(peaks_alone(result, "cpu").run_peak, mebibytes(120 - 30 - 16));
}

TEST(PeaksAlone, AreZeroWithoutFigures) {
  EXPECT_EQ(peaks_alone({}, "cpu").load_peak, Bytes{});
  EXPECT_EQ(peaks_alone({}, "cpu").run_peak, Bytes{});
}

TEST(PeaksAlone, UseGpuMemoryOnAGpu) {
  ModelResult result = alone();
  GpuMemory gpu;
  gpu.device = "cuda:1";
  gpu.runtime = mebibytes(300);
  gpu.load_peak = mebibytes(500);
  gpu.run_peak = mebibytes(450);
  result.gpu_memory = {gpu};
  EXPECT_EQ(peaks_alone(result, "cuda:1").load_peak, mebibytes(200));
  EXPECT_EQ(peaks_alone(result, "cuda:1").run_peak, mebibytes(150));
  EXPECT_EQ(peaks_alone(result, "cuda:0").load_peak, Bytes{});
}

}  // namespace
}  // namespace headroom::bench
