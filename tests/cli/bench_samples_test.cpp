// Annotated samples: the masks of large segmentation models are drawn, but they add nothing to the model's
// figures or the conductor's memory.
#include <gtest/gtest.h>

#include "cli/command.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

// The kernel's high-water mark of a process, in KiB; 0 if the process is gone.
std::int64_t peak_kib(int pid) {
  const std::string status = read_text("/proc/" + std::to_string(pid) + "/status");
  const std::size_t at = status.find("VmHWM:");
  return at == std::string::npos ? 0 : std::stoll(status.substr(at + 6));
}

struct Segmented {
  CommandResult result;
  Json model, samples;
  std::int64_t conductor_peak_kib = 0;
  bool has_picture = false, has_leftovers = false;
};

Segmented segment(const std::string& commands, int sample_images, std::vector<std::string> more = {}) {
  Bench bench;
  Segmented run;
  CommandOptions options;
  options.while_running = [&](int conductor) {
    run.conductor_peak_kib = std::max(run.conductor_peak_kib, peak_kib(conductor));
    return true;
  };
  const Words arguments{"--source",        bench.pictures(),
                        "--backend",       "misbehaving",
                        "--imgsz",         "64",
                        "--max-frames",    "1",
                        "--model",         "masks=" + bench.model("masks", commands),
                        "--sample-images", std::to_string(sample_images)};
  run.result = bench.run(joined({arguments, more}), options);
  run.model = model_of(bench.report(), "masks");
  if (auto samples = parse_json(read_text(bench.run_folder() / "samples/masks.json"))) run.samples = *samples;
  run.has_picture = fs::exists(bench.run_folder() / "samples/masks_1.jpg");
  run.has_leftovers = fs::exists(bench.run_folder() / "masks.samples");
  return run;
}

std::int64_t figure(const Segmented& run, const char* key) {
  return get_integer(get_member(run.model, "memory"), key).value_or(0);
}

// A mask of noise has four million runs, the longest text that its pixels can give.
TEST(BenchSamples, ExcludesSampleMasksFromTheFigures) {
  const Segmented without = segment("segment noise 2048", 0);
  const Segmented with = segment("segment noise 2048", 1);
  ASSERT_EQ(without.result.exit_code, 0) << without.result.err;
  ASSERT_EQ(with.result.exit_code, 0) << with.result.err;
  EXPECT_EQ(get_text(with.model, "task"), "segmentation");
  EXPECT_FALSE(without.has_picture);
  EXPECT_TRUE(with.has_picture);
  const auto peak = static_cast<double>(figure(without, "run_peak_bytes"));
  EXPECT_NEAR(static_cast<double>(figure(with, "run_peak_bytes")), peak, 0.01 * peak);
  // The group is also charged for files that it reads first, as the first run does.
  EXPECT_LT(figure(with, "cgroup_peak_bytes"), figure(without, "cgroup_peak_bytes") + (2 << 20));
  EXPECT_GT(figure(without, "run_peak_bytes"), 64 << 20);
}

TEST(BenchSamples, DrawsALargeMaskWithASmallConductor) {
  const Segmented run = segment("segment even 4096", 1);
  ASSERT_EQ(run.result.exit_code, 0) << run.result.err;
  EXPECT_TRUE(run.has_picture);
  EXPECT_FALSE(run.has_leftovers);
  ASSERT_EQ(run.samples.size(), 1U);
  EXPECT_EQ(get_text(run.samples[0], "image"), "samples/masks_1.jpg");
  const Json& mask = get_member(get_member(run.samples[0], "findings"), "masks").at(0);
  EXPECT_EQ(get_integer(mask, "width"), 4096);
  EXPECT_FALSE(mask.contains("values"));
#ifndef HEADROOM_SANITIZED
  EXPECT_LT(run.conductor_peak_kib, 15 << 10);
#endif
  EXPECT_GT(run.conductor_peak_kib, 0);
}

// The model has reached its peak before its samples are written.
TEST(BenchSamples, WritesSamplesOfAModelAtItsLimit) {
#ifdef HEADROOM_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory would exceed the limit";
#endif
  if (!hard_limits_work()) GTEST_SKIP() << "control groups cannot be made here; a hard limit cannot be tried";
  const Segmented free = segment("segment noise 1024", 0, {"--mem-limit", "1GiB"});
  ASSERT_EQ(free.result.exit_code, 0) << free.result.err;
  const std::int64_t peak = figure(free, "cgroup_peak_bytes");
  ASSERT_GT(peak, 0);
  const std::int64_t limit_mib = (peak >> 20) + 4;
  const Segmented tight =
      segment("segment noise 1024", 1, {"--mem-limit", std::to_string(limit_mib) + "MiB"});
  EXPECT_EQ(tight.result.exit_code, 0) << tight.result.err;
  EXPECT_EQ(get_text(tight.model, "status"), "ok") << get_text(tight.model, "error");
  EXPECT_TRUE(tight.has_picture);
}

}  // namespace
}  // namespace headroom::test
