#include "sources/system_sampler.h"

#include <gtest/gtest.h>

#include "sources_test_support.h"

namespace headroom::sources {
namespace {

TEST(SystemSampler, EmptyTreeGivesAnEmptySample) {
  Tree tree;
  SystemSampler sampler(tree.root());
  const SystemSample sample = sampler.sample();
  EXPECT_TRUE(sampler.found().empty());
  EXPECT_FALSE(sample.ram_total);
  EXPECT_FALSE(sample.cpu_percent);
  EXPECT_FALSE(sample.throttled);
}

TEST(SystemSampler, SecondSampleHasRates) {
  Tree tree;
  tree.file("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0\n");
  tree.file("proc/vmstat",
            "pswpin 10\npswpout 20\nworkingset_refault_anon 1\nworkingset_refault_file 2\noom_kill 0\n");
  SystemSampler sampler(tree.root());
  EXPECT_FALSE(sampler.sample().cpu_percent);
  tree.file("proc/stat", "cpu  150 0 150 900 0 0 0 0 0 0\n");
  tree.file("proc/vmstat",
            "pswpin 15\npswpout 20\nworkingset_refault_anon 4\nworkingset_refault_file 6\noom_kill 1\n");
  const SystemSample sample = sampler.sample();
  EXPECT_DOUBLE_EQ(sample.cpu_percent.value_or(-1), 50.0);
  EXPECT_EQ(sample.pages_swapped_in, 5);
  EXPECT_EQ(sample.pages_swapped_out, 0);
  EXPECT_EQ(sample.refaults, 7);
  EXPECT_EQ(sample.oom_kills, 1);
}

TEST(SystemSampler, ReadsTheSingleRefaultCounterBeforeLinux59) {
  Tree tree;
  tree.file("proc/vmstat", "pswpin 1\nworkingset_refault 10\n");
  SystemSampler sampler(tree.root());
  sampler.sample();
  tree.file("proc/vmstat", "pswpin 1\nworkingset_refault 17\n");
  const SystemSample sample = sampler.sample();
  EXPECT_EQ(sample.refaults, 7);
  EXPECT_EQ(sample.pages_swapped_out, std::nullopt);
  EXPECT_EQ(sample.oom_kills, std::nullopt);
}

TEST(SystemSampler, UnreadableFiguresAreAbsentNotZero) {
  Tree tree;
  tree.file("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 400 kB\n");
  tree.file("proc/stat", "cpu  what\n");
  tree.file("proc/pressure/memory", "some avg10=bad\n");
  tree.file("sys/class/thermal/thermal_zone0/type", "gpu-thermal\n");
  tree.file("sys/class/thermal/thermal_zone0/temp", "");
  tree.file("sys/class/thermal/cooling_device0/type", "gpu-throttle-alert\n");
  tree.file("sys/class/thermal/cooling_device0/cur_state", "");
  tree.file("sys/class/devfreq/17000000.gpu/cur_freq", "\n");
  SystemSampler sampler(tree.root());
  sampler.sample();
  const SystemSample sample = sampler.sample();
  EXPECT_EQ(sample.ram_free, kibibytes(400));
  EXPECT_EQ(sample.ram_used, std::nullopt);  // Buffers and Cached are missing
  EXPECT_EQ(sample.swap_used, std::nullopt);
  EXPECT_EQ(sample.cpu_percent, std::nullopt);
  EXPECT_EQ(sample.psi_some_avg10, std::nullopt);
  EXPECT_EQ(sample.throttled, std::nullopt);
  EXPECT_TRUE(sample.temperatures_celsius.empty());
  EXPECT_TRUE(sample.clocks_hz.empty());
}

TEST(SystemSampler, ReadsAFileThatHasGrown) {
  Tree tree;
  tree.file("proc/vmstat", "pswpin 1\n");
  SystemSampler sampler(tree.root());
  sampler.sample();
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "nr_something_" + std::to_string(i) + " 0\n";
  tree.file("proc/vmstat", text + "pswpin 5\n");
  EXPECT_EQ(sampler.sample().pages_swapped_in, 4);
}

TEST(SystemSampler, SamplesThisMachine) {
  SystemSampler sampler;
  const SystemSample sample = sampler.sample();
  ASSERT_TRUE(sample.ram_total);
  ASSERT_TRUE(sample.ram_used);
  EXPECT_LE(*sample.ram_used, *sample.ram_total);
}

}  // namespace
}  // namespace headroom::sources
