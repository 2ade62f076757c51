#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <string>

#include "bench/conductor/gpu_limit.h"
#include "bench/conductor/phases.h"
#include "support/test_support.h"

namespace headroom::bench {
namespace {

ModelResult result_with(const std::string& name, ModelStatus status) {
  ModelResult model;
  model.name = name;
  model.status = status;
  model.memory.within_limit = status == ModelStatus::ok;
  if (status == ModelStatus::oom) model.error = "the kernel killed it at the limit of 180.0 MiB";
  return model;
}

std::vector<ModelResult> results(ModelStatus grows, ModelStatus big) {
  return {result_with("grows", grows), result_with("big", big)};
}

TEST(CommonLimit, NamesTheModelsThatExceedItAlone) {
  constexpr auto ok = ModelStatus::ok, oom = ModelStatus::oom;
  const std::string grows = "; all models share that limit: grows exceeded it alone",
                    none = "; all models share that limit: no model exceeded it alone";
  struct Case {
    ModelStatus grows_alone, big_alone;
    std::string clause;
    std::optional<bool> within_limit;  // of the killed model `big`
  };
  for (const Case& row : {Case{oom, ok, grows, std::nullopt},
                          {ok, ok, none, std::nullopt},
                          {ok, ModelStatus::timeout, none, false}}) {
    auto together = results(ok, oom);
    explain_kills_at_common_limit(together, results(row.grows_alone, row.big_alone));
    EXPECT_EQ(together[0].error, "");
    EXPECT_EQ(together[1].error, "the kernel killed it at the limit of 180.0 MiB" + row.clause);
    EXPECT_EQ(together[1].memory.within_limit, row.within_limit);
  }
}

TEST(CommonLimit, DecidesWhetherTheLimitWasKept) {
  ParallelResult result;
  result.together = results(ModelStatus::ok, ModelStatus::ok);
  result.joint_peak = mebibytes(70);
  EXPECT_EQ(stayed_within_common_limit(result, std::nullopt, false), std::nullopt);
  EXPECT_EQ(stayed_within_common_limit(result, mebibytes(80), false), true);
  EXPECT_EQ(stayed_within_common_limit(result, mebibytes(80), true), std::nullopt) << "the run ended early";
  EXPECT_EQ(stayed_within_common_limit(result, mebibytes(60), true), false) << "an excess stays an excess";
  result.together[0].memory.violations = 1;
  EXPECT_EQ(stayed_within_common_limit(result, mebibytes(80), false), false);
}

// Several processes map the same 30 MiB of code, which the bench's own processes map, too: each reports a
// share of 10 MiB.
TEST(CommonLimit, CountsSharedPagesOnceAndInFull) {
  ProcessMemory model;
  model.rss = mebibytes(100);
  model.file_backed = mebibytes(30);
  model.shared = mebibytes(8);
  model.pss = mebibytes(62 + 10 + 4);
  model.pss_file = mebibytes(10);
  model.pss_shared = mebibytes(4);
  EXPECT_EQ(resident_without_duplicates({model}), mebibytes(100)) << "one process: its resident size";
  EXPECT_EQ(resident_without_duplicates({model, model, ProcessMemory{}}), mebibytes(2 * 62 + 30 + 8));
  EXPECT_EQ(resident_without_duplicates({model, model, model, model}), mebibytes(4 * 62 + 40 + 16))
      << "other files";
  model.pss_file.reset();  // before Linux 5.3
  EXPECT_EQ(resident_without_duplicates({model}), std::nullopt);
}

SourceMetadata source_of(std::int64_t frames, int width, int height) {
  SourceMetadata source;
  SourceSequence sequence;
  sequence.frames = frames;
  source.sequences = {sequence};
  source.largest_frame = Bytes{std::int64_t{3} * width * height};
  return source;
}

// Frames count in the limit, so they must not be what exceeds it.
TEST(FrameWindow, IsBoundedByTheOptionsOr16MiBAndAnEighthOfTheLimit) {
  struct Case {
    SourceMetadata source;
    std::int64_t max_frames;
    std::optional<std::int64_t> in_memory;
    std::optional<Bytes> limit;
    std::int64_t window;
  };
  for (const Case& row : {Case{source_of(300, 1920, 1080), 300, {}, {}, 2},  // 6.2 MB each
                          {source_of(300, 1920, 1080), 300, 25, {}, 25},
                          {source_of(20, 1920, 1080), 300, 25, {}, 20},
                          {source_of(300, 1920, 1080), 7, 25, {}, 7},
                          {source_of(300, 768, 576), 300, {}, mebibytes(44), 4},
                          {source_of(300, 8000, 6000), 300, {}, mebibytes(44), 1},
                          {source_of(300, 768, 576), 300, 30, mebibytes(44), 30},
                          {source_of(5000, 64, 64), 5000, {}, {}, 600},
                          {source_of(3, 12000, 9000), 300, {}, {}, 1},
                          {source_of(0, 320, 240), 50, {}, {}, 50}}) {  // a camera
    BenchOptions options;
    options.max_frames = row.max_frames;
    options.max_frames_in_memory = row.in_memory;
    options.memory_limit = row.limit;
    const FrameWindow window = choose_frame_window(row.source, options);
    EXPECT_EQ(window.frames, row.window);
    EXPECT_EQ(window.arena.count, row.window * row.source.largest_frame.count);
  }
}

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
  EXPECT_EQ(peaks_alone(alone(), "cpu", true).run_peak, mebibytes(120 - 16 - 32)) << "isolated";
  ModelResult smaller = alone();
  smaller.memory.run_peak = mebibytes(80);
  EXPECT_EQ(peaks_alone(smaller, "cpu").run_peak, mebibytes(80 - 30 - 16 - 12));
  EXPECT_EQ(peaks_alone(smaller, "cpu").load_peak, mebibytes(70 - 30 - 8));
  ModelResult unknown = alone();  // the figure is then larger, which is safe for a budget
  for (PhaseMark& mark : unknown.phases) mark.file_backed.reset();
  EXPECT_EQ(peaks_alone(unknown, "cpu").run_peak, mebibytes(120 - 30 - 16));
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

TEST(UnifiedMemory, RecognizesAJetsonByItsDeviceTree) {
  struct Case {
    std::string strings;  // of the kernel's device tree; each ends with a zero byte. Empty: no device tree
    bool is_tegra;
  };
  for (const auto& [strings, expected] :
       {Case{std::string("nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0", 45), true},
        Case{std::string("raspberrypi,5-model-b\0brcm,bcm2712\0", 35), false}, Case{"", false}}) {
    const test::TemporaryFolder root;
    std::filesystem::create_directories(root.path() / "proc/device-tree");
    if (!strings.empty()) test::write_text(root.path() / "proc/device-tree/compatible", strings);
    EXPECT_EQ(is_tegra(root.path()), expected) << strings;
  }
}

}  // namespace

}  // namespace headroom::bench
