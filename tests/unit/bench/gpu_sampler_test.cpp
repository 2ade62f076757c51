// The sampler with a fake driver that crashes. This program is also the sampler's child.
#include "bench/conductor/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "bench/processes.h"
#include "support/test_support.h"

namespace headroom::bench {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

class GpuSamplerTest : public testing::Test {
 protected:
  GpuSamplerTest() { ::setenv("LD_LIBRARY_PATH", folder_.path().c_str(), 1); }
  ~GpuSamplerTest() override {
    ::unsetenv("LD_LIBRARY_PATH");
    ::unsetenv("FAKE_NVML_CRASH");
  }
  void install_driver() {
    fs::copy_file(fs::path(test::built_path("tests/libfake_nvml_throttled.so")),
                  folder_ / "libnvidia-ml.so.1");
  }
  test::TemporaryFolder folder_;
};

bool has_gpu(GpuSampler& sampler) {
  SystemSample sample;
  sampler.add_to(sample);
  return !sample.gpus.empty();
}

// Samples until `is_so`, at most a minute.
bool becomes(const std::function<bool()>& is_so) {
  for (int tries = 0; tries < 6000; ++tries) {
    if (is_so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(GpuSamplerTest, RestartsADeadChildOfAMonitor) {
  install_driver();
  ::setenv("FAKE_NVML_CRASH", "3", 1);  // each child crashes at its third sample
  GpuSampler sampler({.is_spared = true, .restart_after = Nanoseconds{1}});
  std::vector<std::string> problems;
  int samples = 0;
  ASSERT_TRUE(becomes([&] {
    samples += has_gpu(sampler) ? 1 : 0;
    if (auto problem = sampler.take_problem()) problems.push_back(std::move(*problem));
    return samples > 6;
  }));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], HasSubstr("the process that reads the GPUs ended with"));
  EXPECT_THAT(problems[0], HasSubstr("Headroom tries again every"));
}

TEST_F(GpuSamplerTest, DoesNotRestartADeadChildOfARun) {
  install_driver();
  ::setenv("FAKE_NVML_CRASH", "3", 1);
  GpuSampler sampler;
  int samples = 0;
  std::optional<std::string> problem;
  ASSERT_TRUE(becomes([&] {
    samples += has_gpu(sampler) ? 1 : 0;
    problem = sampler.take_problem();
    return problem.has_value();
  }));
  EXPECT_THAT(*problem, HasSubstr("from here on"));
  EXPECT_LE(samples, 2);
  for (int after = 0; after < 20; ++after) EXPECT_FALSE(has_gpu(sampler));
}

// A service may start before the driver is loaded.
TEST_F(GpuSamplerTest, FindsADriverThatIsLoadedLater) {
  GpuSampler sampler({.is_spared = false, .restart_after = Nanoseconds{1}});
  if (has_gpu(sampler)) GTEST_SKIP() << "this machine has NVIDIA's driver; skipped";
  install_driver();
  EXPECT_TRUE(becomes([&] { return has_gpu(sampler); }));
  EXPECT_FALSE(sampler.take_problem());
}

}  // namespace
}  // namespace headroom::bench

int main(int count, char** arguments) {
  if (count > 1 && std::string_view(arguments[1]) == "_gpu_metrics")
    return headroom::bench::run_gpu_metrics_process(false);
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
