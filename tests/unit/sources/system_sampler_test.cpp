#include "sources/system_sampler.h"

#include <gtest/gtest.h>

#include "support/test_support.h"

namespace headroom::sources {
namespace {
namespace fs = std::filesystem;

class Tree {
 public:
  void file(const std::string& path, const std::string& text) {
    fs::create_directories((folder_.path() / path).parent_path());
    test::write_text(folder_.path() / path, text);
  }
  const fs::path& root() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

std::vector<std::string> names_of(const std::vector<Reading>& readings) {
  std::vector<std::string> names;
  for (const Reading& reading : readings) names.push_back(reading.name);
  return names;
}

TEST(SystemSampler, AnEmptyTreeGivesAnEmptySample) {
  Tree tree;
  SystemSampler sampler(tree.root());
  const SystemSample sample = sampler.sample();
  EXPECT_TRUE(sampler.found().empty());
  EXPECT_FALSE(sample.ram_total);
  EXPECT_FALSE(sample.cpu_percent);
  EXPECT_FALSE(sample.throttled);
}

TEST(SystemSampler, RatesComeWithTheSecondSample) {
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

// Orin with JetPack 6, from the documented paths.
TEST(SystemSampler, JetsonOrin) {
  Tree tree;
  tree.file("proc/meminfo",
            "MemTotal:        7802872 kB\nMemFree:          512000 kB\nMemAvailable:    3000000 kB\nBuffers: "
            "         100000 kB\n"
            "Cached:          2000000 kB\nShmem:             50000 kB\nSwapTotal:       3901428 "
            "kB\nSwapFree:        3801428 kB\n"
            "NvMapMemFree:          0 kB\nNvMapMemUsed:     654320 kB\n");
  tree.file("proc/pressure/memory",
            "some avg10=1.25 avg60=0.50 avg300=0.10 total=1\nfull avg10=0.75 avg60=0 avg300=0 total=1\n");
  tree.file("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n");
  tree.file("sys/class/thermal/thermal_zone0/temp", "48500\n");
  tree.file("sys/class/thermal/thermal_zone1/type", "gpu-thermal\n");
  tree.file("sys/class/thermal/thermal_zone1/temp", "-256000\n");
  tree.file("sys/class/thermal/thermal_zone2/type", "PMIC-Die\n");
  tree.file("sys/class/thermal/thermal_zone2/temp", "100000\n");
  tree.file("sys/class/thermal/cooling_device0/type", "cpu-throttle-alert\n");
  tree.file("sys/class/thermal/cooling_device0/cur_state", "1\n");
  tree.file("sys/class/hwmon/hwmon1/name", "ina3221\n");
  tree.file("sys/class/hwmon/hwmon1/in1_label", "VDD_IN\n");
  tree.file("sys/class/hwmon/hwmon1/in1_input", "5000\n");
  tree.file("sys/class/hwmon/hwmon1/curr1_input", "1200\n");
  tree.file("sys/class/hwmon/hwmon1/in4_label", "sum of shunt voltages\n");
  tree.file("sys/class/hwmon/hwmon1/in4_input", "7\n");
  tree.file("sys/class/devfreq/17000000.gpu/device/of_node/name", "gpu");
  tree.file("sys/class/devfreq/17000000.gpu/device/load", "431\n");
  tree.file("sys/class/devfreq/17000000.gpu/cur_freq", "624750000\n");
  tree.file("sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "1510400\n");
  tree.file("sys/devices/system/cpu/cpufreq/policy4/scaling_cur_freq", "729600\n");
  SystemSampler sampler(tree.root());
  const SystemSample sample = sampler.sample();
  EXPECT_EQ(sample.ram_used, kibibytes(7802872 - 512000 - 100000 - 2000000));
  EXPECT_EQ(sample.nvmap_used, kibibytes(654320));
  EXPECT_EQ(sample.swap_used, kibibytes(100000));
  EXPECT_DOUBLE_EQ(sample.psi_some_avg10.value_or(-1), 1.25);
  EXPECT_DOUBLE_EQ(sample.psi_full_avg10.value_or(-1), 0.75);
  ASSERT_EQ(names_of(sample.temperatures_celsius), (std::vector<std::string>{"cpu-thermal"}));
  EXPECT_DOUBLE_EQ(sample.temperatures_celsius[0].value, 48.5);
  ASSERT_EQ(names_of(sample.power_watts), (std::vector<std::string>{"VDD_IN"}));
  EXPECT_DOUBLE_EQ(sample.power_watts[0].value, 6.0);
  EXPECT_EQ(names_of(sample.clocks_hz), (std::vector<std::string>{"cpu0", "cpu4", "gpu"}));
  EXPECT_DOUBLE_EQ(sample.gpu_percent.value_or(-1), 43.1);
  EXPECT_EQ(sample.throttled, true);
}

// TX2 with JetPack 4: rails under iio, the GPU's load outside devfreq, no PSI.
TEST(SystemSampler, JetsonTx2) {
  Tree tree;
  tree.file("sys/bus/i2c/devices/0-0041/iio:device1/rail_name_0", "VDD_IN\n");
  tree.file("sys/bus/i2c/devices/0-0041/iio:device1/in_power0_input", "3812\n");
  tree.file("sys/bus/i2c/devices/0-0041/iio:device1/rail_name_1", "VDD_CPU\n");
  tree.file("sys/bus/i2c/devices/0-0041/iio:device1/in_power1_input", "763\n");
  tree.file("sys/devices/gpu.0/load", "125\n");
  SystemSampler sampler(tree.root());
  const SystemSample sample = sampler.sample();
  EXPECT_EQ(names_of(sample.power_watts), (std::vector<std::string>{"VDD_IN", "VDD_CPU"}));
  EXPECT_DOUBLE_EQ(sample.power_watts[1].value, 0.763);
  EXPECT_DOUBLE_EQ(sample.gpu_percent.value_or(-1), 12.5);
  EXPECT_FALSE(sample.psi_some_avg10);
}

TEST(SystemSampler, ThisMachine) {
  SystemSampler sampler;
  const SystemSample sample = sampler.sample();
  ASSERT_TRUE(sample.ram_total);
  ASSERT_TRUE(sample.ram_used);
  EXPECT_LE(*sample.ram_used, *sample.ram_total);
}

}  // namespace
}  // namespace headroom::sources
