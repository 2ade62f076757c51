// One test per kind of machine: its files, as the kernel or the vendor documents them, and the sample that
// they give.
#include "sources/system_sampler.h"
#include "sources_test_support.h"

namespace headroom::sources {
namespace {
using testing::DoubleEq;
using testing::ElementsAre;
using testing::Optional;

auto is(const std::string& name, double value) {
  return testing::AllOf(testing::Field(&Reading::name, name),
                        testing::Field(&Reading::value, testing::DoubleNear(value, 1e-9)));
}

TEST(Boards, Desktop) {
  Tree tree;
  tree.file("proc/meminfo",
            "MemTotal: 32768000 kB\nMemFree: 20000000 kB\nMemAvailable: 28000000 kB\nBuffers: 500000 kB\n"
            "Cached: 7000000 kB\nSwapCached: 0 kB\nShmem: 300000 kB\nSwapTotal: 2097148 kB\nSwapFree: "
            "2097148 kB\n");
  tree.file(
      "proc/pressure/memory",
      "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
  tree.zone(0, "acpitz", "27800");
  tree.zone(1, "x86_pkg_temp", "41000");
  tree.file("sys/class/hwmon/hwmon0/name", "acpitz\n");  // repeats its thermal zone
  tree.file("sys/class/hwmon/hwmon0/temp1_input", "27800\n");
  tree.file("sys/class/hwmon/hwmon2/name", "k10temp\n");
  tree.file("sys/class/hwmon/hwmon2/temp1_input", "52125\n");
  for (int cpu : {0, 1, 2, 10})
    tree.file("sys/devices/system/cpu/cpufreq/policy" + std::to_string(cpu) + "/scaling_cur_freq",
              std::to_string(2000000 + cpu) + "\n");
  SystemSampler sampler(tree.root());
  const SystemSample sample = sampler.sample();
  EXPECT_EQ(sample.ram_total, kibibytes(32768000));
  EXPECT_EQ(sample.ram_used, kibibytes(32768000 - 20000000 - 500000 - 7000000));
  EXPECT_EQ(sample.ram_available, kibibytes(28000000));
  EXPECT_EQ(sample.ram_cached, kibibytes(7000000));  // not SwapCached
  EXPECT_EQ(sample.ram_shared, kibibytes(300000));
  EXPECT_EQ(sample.swap_used, Bytes{});
  EXPECT_EQ(sample.nvmap_used, std::nullopt);
  EXPECT_THAT(sample.psi_some_avg10, Optional(DoubleEq(0)));
  EXPECT_THAT(sample.temperatures_celsius,
              ElementsAre(is("acpitz", 27.8), is("x86_pkg_temp", 41), is("k10temp", 52.125)));
  EXPECT_THAT(sample.clocks_hz, ElementsAre(is("cpu0", 2000000e3), is("cpu1", 2000001e3),
                                            is("cpu2", 2000002e3), is("cpu10", 2000010e3)));
  EXPECT_TRUE(sample.power_watts.empty());
  EXPECT_EQ(sample.gpu_percent, std::nullopt);
  EXPECT_EQ(sample.throttled, std::nullopt);
  EXPECT_THAT(sampler.found(), ElementsAre("meminfo", "memory pressure", "CPU clocks: 4 groups",
                                           "thermal: 2 zones", "CPU temperature: 1 sensors"));
}

TEST(Boards, JetsonOrinWithJetPack6) {
  Tree tree;
  tree.file("proc/meminfo",
            "MemTotal: 7802872 kB\nMemFree: 512000 kB\nMemAvailable: 3000000 kB\nBuffers: 100000 kB\n"
            "Cached: 2000000 kB\nShmem: 50000 kB\nSwapTotal: 3901428 kB\nSwapFree: 3801428 kB\n"
            "NvMapMemFree: 0 kB\nNvMapMemUsed: 654320 kB\n");
  tree.file("proc/pressure/memory",
            "some avg10=1.25 avg60=0.50 avg300=0.10 total=1\nfull avg10=0.75 avg60=0 avg300=0 total=1\n");
  tree.zone(0, "cpu-thermal", "48500");
  tree.zone(1, "gpu-thermal", "-256000");  // the rail is gated
  tree.zone(2, "PMIC-Die", "100000");      // reports a constant
  tree.zone(10, "tj-thermal", "49250");
  for (int device : {0, 1})
    tree.file("sys/class/thermal/cooling_device" + std::to_string(device) + "/cur_state",
              device == 0 ? "3\n" : "0\n");
  tree.file("sys/class/thermal/cooling_device0/type", "pwm-fan\n");
  tree.file("sys/class/thermal/cooling_device1/type", "cpu-throttle-alert\n");
  tree.rail(1, "VDD_IN", 5000, 1200);
  tree.rail(2, "VDD_CPU_GPU_CV", 4992, 250);
  tree.rail(3, "NC", 0, 0);
  tree.rail(4, "sum of shunt voltages", 7, 0);
  tree.file("sys/class/devfreq/15340000.vic/device/of_node/name", "vic");
  tree.file("sys/class/devfreq/15340000.vic/cur_freq", "729600000\n");
  tree.file("sys/class/devfreq/17000000.gpu/device/of_node/name", "gpu");
  tree.file("sys/class/devfreq/17000000.gpu/device/load", "431\n");
  tree.file("sys/class/devfreq/17000000.gpu/cur_freq", "624750000\n");
  tree.file("sys/kernel/debug/bpmp/debug/clk/emc/rate", "2133000000\n");
  tree.file("sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "1510400\n");
  tree.file("sys/devices/system/cpu/cpufreq/policy4/scaling_cur_freq", "729600\n");
  SystemSampler sampler(tree.root());
  const SystemSample sample = sampler.sample();
  EXPECT_EQ(sample.ram_used, kibibytes(7802872 - 512000 - 100000 - 2000000));
  EXPECT_EQ(sample.nvmap_used, kibibytes(654320));  // inside ram_used
  EXPECT_EQ(sample.swap_used, kibibytes(100000));
  EXPECT_THAT(sample.psi_some_avg10, Optional(DoubleEq(1.25)));
  EXPECT_THAT(sample.psi_full_avg10, Optional(DoubleEq(0.75)));
  EXPECT_THAT(sample.temperatures_celsius, ElementsAre(is("cpu-thermal", 48.5), is("tj-thermal", 49.25)));
  EXPECT_THAT(sample.power_watts, ElementsAre(is("VDD_IN", 6.0), is("VDD_CPU_GPU_CV", 1.248)));
  EXPECT_THAT(sample.clocks_hz, ElementsAre(is("cpu0", 1510400e3), is("cpu4", 729600e3), is("gpu", 624750000),
                                            is("emc", 2133000000)));
  EXPECT_THAT(sample.gpu_percent, Optional(DoubleEq(43.1)));
  EXPECT_EQ(sample.throttled, false);
  tree.file("sys/class/thermal/cooling_device1/cur_state", "1\n");
  EXPECT_EQ(sampler.sample().throttled, true);
}

// Rails under iio, the GPU's load outside devfreq, no PSI, a single refault counter.
TEST(Boards, JetsonTx2WithJetPack4) {
  Tree tree;
  const std::string monitor = "sys/bus/i2c/devices/0-0041/iio:device1/";
  tree.file(monitor + "rail_name_0", "VDD_IN\n");
  tree.file(monitor + "in_power0_input", "3812\n");
  tree.file(monitor + "rail_name_1", "VDD_CPU\n");
  tree.file(monitor + "in_power1_input", "763\n");
  tree.file(monitor + "rail_name_2", "NC\n");
  tree.file(monitor + "in_power2_input", "0\n");
  tree.file("sys/devices/gpu.0/load", "125\n");
  tree.file("sys/class/devfreq/17000000.gp10b/cur_freq", "1134750000\n");
  tree.file("sys/kernel/debug/bpmp/debug/clk/emc/rate", "1866000000\n");
  const SystemSample sample = tree.sample();
  EXPECT_THAT(sample.power_watts, ElementsAre(is("VDD_IN", 3.812), is("VDD_CPU", 0.763)));
  EXPECT_THAT(sample.gpu_percent, Optional(DoubleEq(12.5)));
  EXPECT_THAT(sample.clocks_hz, ElementsAre(is("gpu", 1134750000), is("emc", 1866000000)));
  EXPECT_EQ(sample.psi_some_avg10, std::nullopt);
}

TEST(Boards, JetsonNano) {
  Tree tree;
  const std::string monitor = "sys/bus/i2c/devices/6-0040/iio:device0/";
  tree.file(monitor + "rail_name_0", "POM_5V_IN\n");
  tree.file(monitor + "in_power0_input", "2450\n");
  tree.zone(0, "AO-therm", "41500");
  tree.zone(4, "PMIC-Die", "50000");
  tree.file("sys/class/devfreq/57000000.gpu/device/of_node/name", std::string("gpu\0", 4));
  tree.file("sys/class/devfreq/57000000.gpu/cur_freq", "921600000\n");
  tree.file("sys/devices/57000000.gpu/load", "990\n");
  tree.file("sys/kernel/debug/clk/override.emc/clk_rate", "1600000000\n");
  const SystemSample sample = tree.sample();
  EXPECT_THAT(sample.power_watts, ElementsAre(is("POM_5V_IN", 2.45)));
  EXPECT_THAT(sample.temperatures_celsius, ElementsAre(is("AO-therm", 41.5)));
  EXPECT_THAT(sample.clocks_hz, ElementsAre(is("gpu", 921600000), is("emc", 1600000000)));
  EXPECT_THAT(sample.gpu_percent, Optional(DoubleEq(99)));
}

// No load file, clocks with their own devfreq names, board input power from another kind of monitor.
TEST(Boards, JetsonThor) {
  Tree tree;
  tree.file("sys/class/hwmon/hwmon0/name", "ina238\n");
  tree.file("sys/class/hwmon/hwmon0/power1_input", "31250000\n");
  tree.rail(1, "VDD_GPU", 800, 5000);
  tree.file("sys/class/devfreq/bwmgr/cur_freq", "4266000000\n");
  tree.file("sys/class/devfreq/gpu-gpc-0/cur_freq", "1575000000\n");
  tree.file("sys/class/devfreq/gpu-nvd-0/cur_freq", "1692000000\n");
  const SystemSample sample = tree.sample();
  EXPECT_THAT(sample.power_watts, ElementsAre(is("VIN", 31.25), is("VDD_GPU", 4.0)));
  EXPECT_THAT(sample.clocks_hz, ElementsAre(is("gpu", 1575000000), is("emc", 4266000000)));
  EXPECT_EQ(sample.gpu_percent, std::nullopt);
}

TEST(Boards, ReportsX86ThrottlingOncePerIncrease) {
  Tree tree;
  const auto count = [&](int cpu, const char* times) {
    tree.file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/thermal_throttle/core_throttle_count",
              times);
  };
  count(0, "7\n");
  count(1, "0\n");
  SystemSampler sampler(tree.root());
  EXPECT_EQ(sampler.sample().throttled, std::nullopt);  // throttling before the start does not count
  EXPECT_EQ(sampler.sample().throttled, false);
  count(1, "1\n");
  EXPECT_EQ(sampler.sample().throttled, true);
  EXPECT_EQ(sampler.sample().throttled, false);
}

}  // namespace
}  // namespace headroom::sources
