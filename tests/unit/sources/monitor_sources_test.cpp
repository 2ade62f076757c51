// Tests the sources that only the monitor uses, with trees of documented paths and with real dumps. Also
// tests the sampler when devices appear and disappear.
#include <unistd.h>

#include <fstream>

#include "sources/metric_source.h"
#include "sources/system_sampler.h"
#include "sources_test_support.h"

namespace headroom::sources {
namespace {
using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

TEST(MonitorSources, FindsTheLargestBlockOfAllZones) {
  Tree tree;
  tree.file("proc/buddyinfo",
            "Node 0, zone      DMA      1      0      0      1      2      0      0\n"
            "Node 0, zone   Normal      5      7      9      3      4      1      0\n"
            "Node 1, zone   Normal      5      7      9      3      4      2      0\n");
  SystemSampler sampler(tree.root());
  const SystemSample sample = sampler.sample();
  EXPECT_EQ(sample.largest_free_block, Bytes{::sysconf(_SC_PAGESIZE) << 5});
  EXPECT_EQ(sample.largest_free_blocks, 3);
  tree.file("proc/buddyinfo", "Node 0, zone Normal 0 0 0\n");
  EXPECT_EQ(sampler.sample().largest_free_block, Bytes{});  // no free block is a known value, too
  tree.file("proc/buddyinfo", "what\n");
  EXPECT_EQ(sampler.sample().largest_free_block, std::nullopt);
}

TEST(MonitorSources, UsesPageSizeOfAnotherMachineForTheLargestBlock) {
  for (const int page_kib : {4, 16, 64}) {
    Tree tree;
    // 100 + 2 * 50 + 4 * 10 = 240 pages; 10 more are in per-processor lists.
    tree.file("proc/buddyinfo", "Node 0, zone Normal 100 50 10\n");
    tree.file("proc/meminfo", "MemTotal: 999999 kB\nMemFree: " + std::to_string(250 * page_kib) + " kB\n");
    EXPECT_EQ(tree.sample().largest_free_block, Bytes{4 * page_kib * 1024});
  }
}

TEST(MonitorSources, ReadsZram) {
  Tree tree;
  tree.file("sys/block/zram0/mm_stat", "1000000 300000 350000 0 360000 5 0 0\n");
  tree.file("sys/block/zram1/mm_stat", " 2000000   600000   650000        0   660000        5        0\n");
  tree.file("sys/block/sda/stat", "1\n");
  const SystemSample sample = tree.sample();
  EXPECT_EQ(sample.zram_original, Bytes{3000000});
  EXPECT_EQ(sample.zram_compressed, Bytes{900000});
  EXPECT_EQ(sample.zram_used, Bytes{1000000});
}

TEST(MonitorSources, ReadsControlGroupVersion2) {
  Tree tree;
  tree.file("proc/self/cgroup", "0::/robot.slice/perception\n");
  for (const auto& [name, text] : {std::pair{"current", "5000\n"},
                                   {"peak", "7000\n"},
                                   {"max", "max\n"},
                                   {"high", "9000\n"},
                                   {"swap.current", "100\n"},
                                   {"stat", "anon 3000\nfile 1000\nanon_thp 5\n"},
                                   {"events", "low 0\nhigh 4\nmax 3\noom 1\noom_kill 2\n"}})
    tree.file(std::string("sys/fs/cgroup/robot.slice/perception/memory.") + name, text);
  EXPECT_EQ(tree.sample().cgroup,
            (CgroupMemory{
                Bytes{5000}, Bytes{7000}, {}, Bytes{3000}, Bytes{1000}, 2, Bytes{100}, Bytes{9000}, {}, 4}));
}

// In a container the path is that of the host, and the group is at the mount point.
TEST(MonitorSources, ReadsControlGroupVersion1InAContainer) {
  Tree tree;
  tree.file("proc/self/cgroup", "11:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n0::/\n");
  for (const auto& [name, text] :
       {std::pair{"usage_in_bytes", "5000\n"},
        {"max_usage_in_bytes", "6000\n"},
        {"limit_in_bytes", "9223372036854771712\n"},
        {"stat", "cache 1\nrss 2\ntotal_cache 10\ntotal_rss 20\ntotal_rss_huge 3\ntotal_swap 4\n"},
        {"oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"}})
    tree.file(std::string("sys/fs/cgroup/memory/memory.") + name, text);
  EXPECT_EQ(tree.sample().cgroup,
            (CgroupMemory{Bytes{5000}, Bytes{6000}, {}, Bytes{20}, Bytes{10}, 7, Bytes{4}, {}}));
}

TEST(MonitorSources, ReadsEachCore) {
  Tree tree;
  tree.file("proc/stat",
            "cpu  100 0 0 100 0 0 0 0\ncpu0 50 0 0 50 0 0 0 0\ncpu2 50 0 0 50 0 0 0 0\nintr 5 6\n");
  SystemSampler sampler(tree.root());
  sampler.sample();
  tree.file("proc/stat", "cpu  200 0 0 200 0 0 0 0\ncpu0 140 0 0 60 0 0 0 0\ncpu2 60 0 0 140 0 0 0 0\n");
  EXPECT_THAT(sampler.sample().cores,
              ElementsAre(CpuCore{true, 90, {}}, CpuCore{false, {}, {}}, CpuCore{true, 10, {}}));
}

TEST(MonitorSources, ReadsAllocationAndCompactionStalls) {
  Tree tree;
  tree.file("proc/vmstat",
            "allocstall_normal 10\nallocstall_movable 5\ncompact_stall 3\ncompact_fail 2\npgmajfault 100\n");
  tree.file("proc/pressure/memory",
            "some avg10=1.00 avg60=0 avg300=0 total=1000\nfull avg10=0.5 avg60=0 avg300=0 total=400\n");
  SystemSampler sampler(tree.root());
  EXPECT_EQ(sampler.sample().psi_some_stalled, std::nullopt);
  tree.file("proc/vmstat",
            "allocstall_normal 11\nallocstall_movable 7\ncompact_stall 4\ncompact_fail 2\npgmajfault 150\n");
  tree.file("proc/pressure/memory",
            "some avg10=1.00 avg60=0 avg300=0 total=3000\nfull avg10=0.5 avg60=0 avg300=0 total=500\n");
  const SystemSample sample = sampler.sample();
  EXPECT_EQ(sample.allocation_stalls, 3);
  EXPECT_EQ(sample.compaction_stalls, 1);
  EXPECT_EQ(sample.compaction_failures, 0);
  EXPECT_EQ(sample.major_faults, 50);
  EXPECT_EQ(sample.psi_some_stalled, Nanoseconds{2'000'000});
  EXPECT_EQ(sample.psi_full_stalled, Nanoseconds{100'000});
}

// Orin with JetPack 5: memory controller load, sleeping engines, a fan under hwmon, a named power mode.
TEST(MonitorSources, ReadsOrinAsRoot) {
  Tree tree;
  tree.file("sys/kernel/debug/bpmp/debug/clk/emc/rate", "2133000000\n");
  tree.file("sys/kernel/debug/cactmon/mc_all", "426600\n");
  for (const char* name :
       {"nvenc", "nvdec", "nvjpg", "nvjpg1", "se", "vic", "ape", "ofa", "sdmmc1", "uarta"}) {
    tree.file(std::string("sys/kernel/debug/clk/") + name + "/clk_rate", "729600000\n");
    tree.file(std::string("sys/kernel/debug/clk/") + name + "/clk_enable_count",
              std::string(name) == "vic" ? "1\n" : "0\n");
  }
  tree.file("sys/class/hwmon/hwmon2/name", "pwmfan\n");
  tree.file("sys/class/hwmon/hwmon2/pwm1", "51\n");
  tree.file("sys/class/hwmon/hwmon3/name", "pwm_tach\n");
  tree.file("sys/class/hwmon/hwmon3/rpm", "1520\n");
  tree.file("etc/nvpmodel.conf", "< POWER_MODEL ID=0 NAME=MAXN >\nX 1\n< POWER_MODEL ID=2 NAME=MODE_30W >\n");
  tree.file("var/lib/nvpmodel/status", "pmode:0002 fmode:quiet\n");
  const SystemSample sample = tree.sample();
  EXPECT_THAT(sample.emc_percent, Optional(testing::DoubleNear(20.0, 1e-9)));
  ASSERT_EQ(sample.engines.size(), 8U);
  EXPECT_EQ(sample.engines[0].name, "ape");
  EXPECT_EQ(sample.engines[0].on, false);
  EXPECT_EQ(sample.engines[0].clock_hz, std::nullopt);
  EXPECT_EQ(sample.engines[7].name, "vic");
  EXPECT_EQ(sample.engines[7].clock_hz, 729600000);
  EXPECT_THAT(sample.fans_percent, ElementsAre(Reading{"pwmfan", 20}));
  EXPECT_THAT(sample.fans_rpm, ElementsAre(Reading{"pwm_tach", 1520}));
  EXPECT_EQ(sample.power_mode, "MODE_30W");
}

// Nano, TX2 and Xavier with L4T 32: the fan has its own files, and the power mode may have no name.
TEST(MonitorSources, ReadsBoardsWithL4T32) {
  Tree tree;
  tree.file("sys/devices/pwm-fan/target_pwm", "255\n");
  tree.file("sys/devices/pwm-fan/rpm_measured", "4321\n");
  tree.file("var/lib/nvpmodel/status", "pmode:0003\n");
  tree.file("sys/kernel/debug/clk/override.emc/clk_rate", "1600000000\n");
  tree.file("sys/kernel/actmon_avg_activity/mc_all", "160000\n");
  const SystemSample sample = tree.sample();
  EXPECT_THAT(sample.fans_percent, ElementsAre(Reading{"pwm-fan", 100}));
  EXPECT_THAT(sample.fans_rpm, ElementsAre(Reading{"pwm-fan", 4321}));
  EXPECT_EQ(sample.power_mode, "mode 3");
  EXPECT_THAT(sample.emc_percent, Optional(testing::DoubleNear(10.0, 1e-9)));
}

// AGX Xavier: two monitors with three rails each, and no rail for the whole board.
TEST(MonitorSources, ReadsRailsOfXavier) {
  Tree tree;
  int channel = 0;
  for (const char* name : {"GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"}) {
    const std::string device =
        channel < 3 ? "sys/bus/i2c/devices/1-0040/iio:device0/" : "sys/bus/i2c/devices/1-0041/iio:device1/";
    tree.file(device + "rail_name_" + std::to_string(channel % 3), std::string(name) + "\n");
    tree.file(device + "in_power" + std::to_string(channel % 3) + "_input",
              std::to_string(100 * channel + 100) + "\n");
    ++channel;
  }
  tree.file("sys/devices/17000000.gv11b/load", "500\n");
  tree.file("sys/class/devfreq/17000000.gv11b/cur_freq", "1377000000\n");
  const SystemSample sample = tree.sample();
  EXPECT_THAT(sample.power_watts,
              ElementsAre(Reading{"GPU", 0.1}, Reading{"CPU", 0.2}, Reading{"SOC", 0.3}, Reading{"CV", 0.4},
                          Reading{"VDDRQ", 0.5}, Reading{"SYS5V", 0.6}));
  EXPECT_THAT(sample.gpu_percent, Optional(DoubleEq(50)));
}

// Orin with JetPack 7: the GPU's load is in sysfs as before. `governor` instead of enable_3d_scaling makes
// no difference.
TEST(MonitorSources, ReadsOrinWithJetPack7) {
  Tree tree;
  tree.file("sys/class/devfreq/17000000.gpu/device/of_node/name", std::string("gpu\0", 4));
  tree.file("sys/class/devfreq/17000000.gpu/cur_freq", "1300500000\n");
  tree.file("sys/class/devfreq/17000000.gpu/governor", "nvhost_podgov\n");
  tree.file("sys/devices/platform/bus@0/17000000.gpu/load", "120\n");
  tree.rail(1, "VDD_GPU_SOC", 19120, 200);
  const SystemSample sample = tree.sample();
  EXPECT_THAT(sample.gpu_percent, Optional(DoubleEq(12)));
  ASSERT_EQ(sample.power_watts.size(), 1U);
  EXPECT_NEAR(sample.power_watts[0].value, 3.824, 1e-9);
}

TEST(MonitorSources, ReadsNvMapClients) {
  std::vector<ProcessSample> processes;
  EXPECT_EQ(read_nvmap_clients("CLIENT                        PROCESS      PID        SIZE\n"
                               "user                         gpu_burn     7979   23525644K\n"
                               "user                  a name of three     8119       5M\n"
                               "kernel                        x     0       5M\n"
                               "total                                            23549320K\n",
                               processes),
            kibibytes(23549320));
  ASSERT_EQ(processes.size(), 2U);
  EXPECT_EQ(processes[0].pid, 7979);
  EXPECT_EQ(processes[0].gpu, kibibytes(23525644));
  EXPECT_EQ(processes[1].name, "a name of three");
  EXPECT_EQ(processes[1].gpu, mebibytes(5));
  EXPECT_EQ(read_nvmap_clients("CLIENT PROCESS PID SIZE\ntotal 0K\n", processes), Bytes{});
  EXPECT_EQ(read_nvmap_clients("user x 5 99999999999999999999K\ntotal 9223372036854775807G\n", processes),
            std::nullopt);
  EXPECT_EQ(processes.size(), 2U);
}

TEST(KernelLog, FindsOomVictimsOfAllKernelVersions) {
  for (
      const auto& [message, name, pid] :
      {std::tuple{"Out of memory: Kill process 7248 (python3) score 266 or sacrifice child", "python3", 7248},
       {"Killed process 2700 (DeviceMemory) total-vm:1838376kB, anon-rss:2632kB, file-rss:628kB",
        "DeviceMemory", 2700},
       {"Memory cgroup out of memory: Killed process 2343 (python3) total-vm:31763532kB, anon-rss:13928044kB",
        "python3", 2343},
       {"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=framework,pid=3319125,uid=5000",
        "framework", 3319125}}) {
    const auto event = kernel_event_of(message);
    ASSERT_TRUE(event) << message;
    EXPECT_EQ(event->kind, KernelEventKind::oom_kill);
    EXPECT_EQ(event->process, name);
    EXPECT_EQ(event->pid, pid);
  }
  EXPECT_EQ(kernel_event_of("NvMapMemAllocInternalTagged: 1075072515 error 12")->kind,
            KernelEventKind::nvmap_error);
  EXPECT_EQ(
      kernel_event_of(
          "nvgpu: 17000000.gpu nvgpu_dma_print_err:101  [INFO]  DMA alloc FAILED: [sysmem] size=257490944")
          ->kind,
      KernelEventKind::gpu_error);
  for (const char* message : {"usb 1-1: new device", "Killed process", "oom-kill:x", "nvgpu: loaded", ""})
    EXPECT_FALSE(kernel_event_of(message)) << message;
}

// Only records after the start count, and a kill that is logged in three lines counts once.
TEST(KernelLog, ReadsARecordOnce) {
  Tree tree;
  tree.file("dev/kmsg", "4,1,1,-;Killed process 1 (old)\n");
  SystemSampler sampler(tree.root());
  EXPECT_THAT(sampler.sample().kernel_events, IsEmpty());
  std::ofstream(tree.root() / "dev/kmsg", std::ios::app)
      << "6,2,2,-;oom-kill:constraint=CONSTRAINT_NONE,task=app,pid=77,uid=0\n"
      << "3,3,3,-;Out of memory: Killed process 77 (app) total-vm:1kB\n6,4,4,-;something else\n";
  const SystemSample sample = sampler.sample();
  ASSERT_EQ(sample.kernel_events.size(), 1U);
  EXPECT_EQ(sample.kernel_events[0].pid, 77);
  EXPECT_THAT(sampler.sample().kernel_events, IsEmpty());
}

// Linux before 5.9 has a single counter of refaults.
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
  tree.file("proc/vmstat", "pswpin 1\nworkingset_refault 10\n");
  EXPECT_EQ(sampler.sample().oom_kills, std::nullopt);
  tree.file("proc/vmstat", "pswpin 1\nworkingset_refault 17\n");
  EXPECT_EQ(sampler.sample().refaults, 7);
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

TEST(SystemSampler, FindsADeviceThatAppearsLater) {
  Tree tree;
  tree.zone(0, "cpu-thermal", "40000");
  tree.file("proc/vmstat", "pswpin 1\n");
  SystemSampler sampler(tree.root(), Nanoseconds{0});
  sampler.sample();
  tree.zone(1, "gpu-thermal", "40000");
  tree.file("sys/class/hwmon/hwmon0/name", "pwmfan\n");
  tree.file("sys/class/hwmon/hwmon0/pwm1", "255\n");
  tree.file("proc/vmstat", "pswpin 4\n");
  const SystemSample sample = sampler.sample();
  EXPECT_THAT(sample.temperatures_celsius,
              ElementsAre(Reading{"cpu-thermal", 40}, Reading{"gpu-thermal", 40}));
  EXPECT_THAT(sample.fans_percent, ElementsAre(Reading{"pwmfan", 100}));
  EXPECT_EQ(sample.pages_swapped_in, 3);  // existing sources keep their counters
}

TEST(SystemSampler, SkipsAFailingSource) {
  Tree tree;
  tree.file("proc/meminfo", "MemTotal: 1000 kB\n");
  tree.file("sys/block/zram0/mm_stat", "1 2 3\n");
  SystemSampler sampler(tree.root());
  EXPECT_THAT(sampler.found(), ElementsAre("meminfo", "zram: 1 devices"));
  tree.file("sys/block/zram0/mm_stat", "");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 30; ++i) EXPECT_EQ(sampler.sample().ram_total, kibibytes(1000));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("zram"), said.rfind("zram")) << said;
  EXPECT_NE(said.find("zram"), said.npos);
  EXPECT_THAT(sampler.found(), ElementsAre("meminfo"));
}

}  // namespace
}  // namespace headroom::sources
