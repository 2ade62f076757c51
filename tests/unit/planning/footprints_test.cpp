#include "planning/footprints.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "planning/changes.h"
#include "planning/memory_plan.h"
#include "random_budget.h"

namespace headroom::planning {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The footprint of yolox_nano_640x640 on an x86-64 CPU, measured by headroom bench, in whole MiB.
MeasuredFootprint yolox(const std::string& file = "runs/1/footprints/a.json") {
  Footprint footprint;
  footprint.name = "a";
  footprint.path = "models/yolox_nano_640x640.onnx";
  footprint.backend = "onnxruntime";
  footprint.backend_version = "1.29.0";
  footprint.runtime = mebibytes(25);
  footprint.load_peak = mebibytes(33);
  footprint.run_mean = mebibytes(59);
  footprint.run_peak = mebibytes(60);
  footprint.frames = mebibytes(6);
  footprint.file_backed = mebibytes(30);
  footprint.charged_peak = mebibytes(62);
  footprint.measured_at = "2026-11-22T21:45:21+00:00";
  footprint.host = "bench-7";
  return {file, footprint};
}

Budget budget_with(const std::string& model, const std::string& footprint = {}) {
  Budget budget;
  budget.name = "b.toml";
  BudgetComponent component;
  component.name = "yolo";
  component.need.model = model;
  component.need.footprint = footprint;
  component.need.line = 7;
  budget.components = {component};
  return budget;
}

TEST(Footprints, SeparatesOwnSharedAndKernelPages) {
  const MemoryNeed need = need_of(yolox());
  EXPECT_EQ(need.shared, mebibytes(30));
  EXPECT_EQ(need.shared_key, "onnxruntime 1.29.0");
  EXPECT_EQ(need.kernel, mebibytes(1));  // 62 charged of 91 − 30
  EXPECT_EQ(need.load_peak, mebibytes(25 + 33 - 30 + 1));
  EXPECT_EQ(need.run_peak, mebibytes(25 + 60 - 30 + 1));
  EXPECT_EQ(need.measured_frames, mebibytes(6));
  // The sum equals the group's peak.
  EXPECT_EQ(*need.run_peak + need.frame_bytes(), mebibytes(62));
}

TEST(Footprints, ReadsReportsOfEarlierVersions) {
  MeasuredFootprint old = yolox();
  old.footprint.file_backed.reset();
  EXPECT_EQ(need_of(old).shared, mebibytes(91 - 62));
  old.footprint.charged_peak.reset();
  EXPECT_EQ(need_of(old).shared, Bytes{});
  EXPECT_EQ(need_of(old).run_peak, mebibytes(85));
}

TEST(Footprints, FindsByNameFileAndFolder) {
  MeasuredFootprint newer = yolox("runs/2/footprints/a.json");
  newer.footprint.measured_at = "2026-11-23T08:00:00+00:00";
  newer.footprint.run_peak = mebibytes(70);
  const std::vector<MeasuredFootprint> measured{yolox(), newer};
  const auto run_peak = [&](const Budget& budget) {
    const auto resolved = resolve_footprints(budget, measured);
    EXPECT_TRUE(resolved) << resolved.error().sentence();
    return resolved->components[0].need.run_peak;
  };
  EXPECT_EQ(run_peak(budget_with("a")), mebibytes(25 + 70 - 30));
  EXPECT_EQ(run_peak(budget_with("yolox_nano_640x640")), mebibytes(65));
  EXPECT_EQ(run_peak(budget_with("yolox_nano_640x640.onnx")), mebibytes(65));
  EXPECT_EQ(run_peak(budget_with("a", "runs/1")), mebibytes(56));
  EXPECT_EQ(run_peak(budget_with("", "runs/1/footprints/a.json")), mebibytes(56));
  // Frames of the budget replace those of the bench.
  Budget with_frames = budget_with("a");
  with_frames.components[0].need.frames = {{1920, 1080, 3, 1, 10}};
  EXPECT_EQ(resolve_footprints(with_frames, measured)->components[0].need.frame_bytes(),
            (Bytes{1920 * 1080 * 3 * 10}));
}

TEST(Footprints, TakesTheMedianOfRepeatedMeasurements) {
  std::vector<MeasuredFootprint> measured;
  for (const int megabytes : {60, 75, 62}) {
    measured.push_back(yolox(fmt::format("runs/{}/footprints/a.json", megabytes)));
    measured.back().footprint.run_peak = mebibytes(megabytes);
    measured.back().footprint.charged_peak = mebibytes(megabytes + 2);
  }
  const auto run_peak = [&] {
    return resolve_footprints(budget_with("a"), measured)->components[0].need.run_peak;
  };
  EXPECT_EQ(run_peak(), mebibytes(62 + 25 - 30 + 1));
  measured.back().footprint.settings.threads = 1;  // other settings, and not newer
  measured.back().footprint.measured_at = "2026-11-23T08:00:00+00:00";
  measured.back().footprint.run_peak = mebibytes(30);
  EXPECT_EQ(run_peak(), mebibytes(30 + 25 - 30) + need_of(measured.back()).kernel);
}

TEST(Footprints, ReportsAMissingFootprintWithItsLine) {
  const auto resolved = resolve_footprints(budget_with("yolo11n"), {yolox()});
  ASSERT_FALSE(resolved);
  EXPECT_EQ(resolved.error().sentence(),
            "b.toml:7: no footprint of yolo11n; measure it with headroom bench --model NAME=FILE, then use "
            "--footprints outputs");
  EXPECT_THAT(resolve_footprints(budget_with("a", "runs/9"), {yolox()}).error().sentence(),
              StartsWith("b.toml:7: no footprint of a in runs/9"));
}

TEST(Footprints, TheSameModelOnAnotherRuntimeIsAVariant) {
  MeasuredFootprint other = yolox("runs/3/footprints/b.json");
  other.footprint.name = "b";
  other.footprint.path = "models/yolox_nano_640x640.torchscript";
  other.footprint.backend = "libtorch";
  other.footprint.path = "other/yolox_nano_640x640.pt";
  const auto resolved = resolve_footprints(budget_with("a"), {yolox(), other});
  ASSERT_TRUE(resolved);
  ASSERT_EQ(resolved->components[0].variants.size(), 1U);
  const BudgetVariant& variant = resolved->components[0].variants[0];
  EXPECT_EQ(variant.settings, (std::map<std::string, std::string>{{"backend", "libtorch"}}));
  EXPECT_THAT(variant.need.origin.source,
              HasSubstr("runs/3/footprints/b.json, measured 2026-11-22 on bench-7"));
}

// A plan for a discrete GPU uses GPU memory figures, never host memory.
TEST(Footprints, UsesGpuFiguresForAGpu) {
  MeasuredFootprint on_gpu = yolox("runs/4/footprints/a.json");
  on_gpu.footprint.settings.device = "cuda:0";
  on_gpu.footprint.measured_at = "2026-11-01T08:00:00+00:00";
  on_gpu.footprint.gpu = FootprintGpu{"cuda:0", "NVIDIA H200", mebibytes(700), mebibytes(650), false};
  Budget budget = budget_with("a");
  budget.device.name = "GeForce RTX 3060 12 GB";
  budget.device.is_gpu = true;
  const auto resolved =
      resolve_footprints(budget, {yolox(), on_gpu});  // the newest footprint is from the CPU
  ASSERT_TRUE(resolved) << resolved.error().sentence();
  const MemoryNeed& need = resolved->components[0].need;
  EXPECT_EQ(need.load_peak, mebibytes(700));
  EXPECT_EQ(need.run_peak, mebibytes(650));
  EXPECT_EQ(need.shared, Bytes{});
  EXPECT_EQ(need.frame_bytes(), Bytes{});
  EXPECT_EQ(need.gpu_apart, Bytes{});
  // Takes the largest of repeated measurements: the runtime may choose another workspace each time.
  MeasuredFootprint larger = on_gpu, newest = on_gpu;
  larger.footprint.gpu->run_peak = mebibytes(770);
  newest.footprint.measured_at = "2026-11-02T08:00:00+00:00";
  const auto repeated = resolve_footprints(budget, {newest, larger, on_gpu});
  ASSERT_TRUE(repeated) << repeated.error().sentence();
  EXPECT_EQ(repeated->components[0].need.run_peak, mebibytes(770));
  const auto refused = resolve_footprints(budget, {yolox()});
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().sentence(),
      "b.toml:7: no GPU measurement of a: runs/1/footprints/a.json contains host memory only, but GeForce "
      "RTX 3060 12 GB has its own memory; measure it with headroom bench --device cuda:0, or write sizes");
  // On a board, host figures count, and the GPU memory is reported separately.
  budget.device.is_gpu = false;
  const auto on_board = resolve_footprints(budget, {on_gpu});
  ASSERT_TRUE(on_board);
  EXPECT_EQ(on_board->components[0].need.run_peak, need_of(yolox()).run_peak);
  EXPECT_EQ(on_board->components[0].need.gpu_apart, mebibytes(650));
}

TEST(Footprints, WhatIfOverridesAMeasuredComponent) {
  MeasuredFootprint other = yolox("runs/3/footprints/b.json");
  other.footprint.name = "b";
  other.footprint.backend = "libtorch";
  const std::vector<MeasuredFootprint> measured{yolox(), other};
  const Budget budget = *resolve_footprints(budget_with("a"), measured);
  const auto changed = [&](const char* change) {
    return resolve_footprints(*with_change(budget, change), measured)->components[0].need;
  };
  EXPECT_EQ(changed("yolo.load_peak=1GiB").load_peak, gibibytes(1));
  EXPECT_EQ(changed("yolo.backend=libtorch").shared_key, "libtorch 1.29.0");
  EXPECT_EQ(changed("yolo.model=b").shared_key, "libtorch 1.29.0");
}

}  // namespace
}  // namespace headroom::planning
