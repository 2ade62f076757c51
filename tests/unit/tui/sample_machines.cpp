#include "sample_machines.h"

#include <string>

#include "sources/system_sampler.h"
#include "unit/sources/sources_test_support.h"

namespace headroom::tui {
namespace {

ProcessSample process(std::int64_t pid, const std::string& name, double cpu, Bytes rss,
                      std::optional<Bytes> gpu, std::int64_t oom_score) {
  ProcessSample sample;
  sample.pid = pid;
  sample.parent = 1;
  sample.name = name;
  sample.cpu_percent = cpu;
  sample.rss = rss;
  sample.gpu = gpu;
  sample.swapped = Bytes{};
  sample.oom_score = oom_score;
  sample.oom_score_adj = 0;
  sample.user = pid < 1000 ? "root" : "robotics_team";
  sample.threads = 4;
  return sample;
}

}  // namespace

// An Orin NX 16 GB with JetPack 6, under load, read as root.
SystemSample orin_sample() {
  const sources::Tree tree;
  tree.file(
      "proc/meminfo",
      "MemTotal: 16043456 kB\nMemFree: 1912000 kB\nMemAvailable: 6400000 kB\nBuffers: 180000 kB\n"
      "Cached: 4700000 kB\nSwapCached: 0 kB\nAnonPages: 3900000 kB\nMapped: 900000 kB\nShmem: 210000 kB\n"
      "SReclaimable: 160000 kB\nSUnreclaim: 240000 kB\nKernelStack: 14000 kB\nPageTables: 39000 kB\n"
      "SwapTotal: 8021724 kB\nSwapFree: 7900000 kB\nCmaTotal: 262144 kB\nCmaFree: 61440 kB\n"
      "NvMapMemFree: 4096 kB\nNvMapMemUsed: 4812800 kB\n");
  tree.file("proc/pressure/memory",
            "some avg10=1.25 avg60=0.50 avg300=0.10 total=1\nfull avg10=0.75 avg60=0 avg300=0 total=1\n");
  tree.zone(0, "cpu-thermal", "68200");
  tree.zone(1, "gpu-thermal", "72100");
  tree.zone(2, "soc0-thermal", "61000");
  tree.zone(3, "soc1-thermal", "62500");
  tree.zone(4, "cv0-thermal", "-256000");
  tree.zone(10, "tj-thermal", "72100");
  tree.rail(1, "VDD_IN", 5000, 3700);
  tree.rail(2, "VDD_CPU_GPU_CV", 5000, 1350);
  tree.rail(3, "VDD_SOC", 5000, 625);
  tree.file("sys/class/hwmon/hwmon2/name", "pwmfan\n");
  tree.file("sys/class/hwmon/hwmon2/pwm1", "128\n");
  tree.file("sys/class/hwmon/hwmon3/name", "pwm_tach\n");
  tree.file("sys/class/hwmon/hwmon3/rpm", "3120\n");
  tree.file("sys/class/devfreq/17000000.gpu/device/of_node/name", "gpu");
  tree.file("sys/class/devfreq/17000000.gpu/device/load", "920\n");
  tree.file("sys/class/devfreq/17000000.gpu/cur_freq", "918000000\n");
  tree.file("sys/kernel/debug/bpmp/debug/clk/emc/rate", "3199000000\n");
  tree.file("sys/kernel/debug/cactmon/mc_all", "1215620\n");
  for (const char* name : {"nvenc", "nvdec", "nvjpg", "vic", "ofa"}) {
    tree.file(std::string("sys/kernel/debug/clk/") + name + "/clk_rate", "729600000\n");
    tree.file(std::string("sys/kernel/debug/clk/") + name + "/clk_enable_count",
              std::string(name) == "vic" || std::string(name) == "nvdec" ? "1\n" : "0\n");
  }
  tree.file("etc/nvpmodel.conf", "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=3 NAME=25W >\n");
  tree.file("var/lib/nvpmodel/status", "pmode:0003\n");
  tree.file("proc/stat", "cpu  100 0 0 100 0 0 0 0\n");
  for (int cluster : {0, 4})
    tree.file("sys/devices/system/cpu/cpufreq/policy" + std::to_string(cluster) + "/scaling_cur_freq",
              "1984000\n");
  sources::SystemSampler sampler(tree.root());
  SystemSample sample = sampler.sample();
  // Fixed values for figures that depend on the machine that runs this test: rates, page size, time.
  sample.cpu_percent = 80;
  sample.cores.clear();
  for (const double percent : {80.0, 75.0, 70.0, 85.0, 90.0, 65.0, 95.0, 80.0})
    sample.cores.push_back({true, percent, std::nullopt});
  sample.largest_free_block = mebibytes(4);
  sample.largest_free_blocks = 128;
  sample.refaults = 350;
  sample.pages_swapped_in = 12;
  sample.time = {60'000'000'000};
  sample.unix_time.reset();
  sample.processes = {process(2210, "vlm_node", 182.4, gibibytes(3), mebibytes(3300), 310),
                      process(2214, "yolo_trt", 96.1, mebibytes(1210), mebibytes(980), 140),
                      process(2230, "segnet", 41, mebibytes(860), mebibytes(420), 120),
                      process(1801, "octomap_server", 12.5, mebibytes(640), std::nullopt, 92),
                      process(990, "Xorg", 2, mebibytes(120), mebibytes(64), 20),
                      process(1, "systemd", 0, mebibytes(12), std::nullopt, 0)};
  return sample;
}

SystemSample desktop_sample() {
  SystemSample sample = vm_sample();
  sample.ram_total = gibibytes(32);
  sample.ram_free = gibibytes(18);
  sample.ram_available = gibibytes(26);
  sample.ram_buffers = mebibytes(512);
  sample.ram_cached = gibibytes(8);
  sample.ram_shared = mebibytes(256);
  sample.ram_anonymous = gibibytes(4);
  sample.slab_reclaimable = mebibytes(600);
  sample.ram_used = gibibytes(32 - 18 - 8) - mebibytes(512);
  sample.temperatures_celsius = {{"k10temp", 52.1}, {"acpitz", 27.8}};
  GpuSample gpu;
  gpu.index = 0;
  gpu.name = "NVIDIA GeForce RTX 4070";
  gpu.uuid = "GPU-1";
  gpu.memory_total = mebibytes(12282);
  gpu.memory_used = mebibytes(10100);
  gpu.memory_free = mebibytes(1900);
  gpu.gpu_percent = 97;
  gpu.graphics_clock_hz = 2.61e9;
  gpu.temperature_celsius = 71;
  gpu.power_watts = 188;
  gpu.power_limit_watts = 200;
  gpu.throttled = true;
  sample.gpus = {gpu};
  sample.gpu_percent = 97;
  sample.processes = {process(4100, "python3", 101, gibibytes(3), mebibytes(9700), 140),
                      process(1200, "gnome-shell", 3, mebibytes(420), mebibytes(310), 70),
                      process(4200, "a name of 15 by", 0, mebibytes(20), std::nullopt, 2)};
  return sample;
}

SystemSample vm_sample() {
  SystemSample sample;
  sample.time = {60'000'000'000};
  sample.cpu_percent = 12;
  sample.cores = {{true, 4.0, std::nullopt}, {true, 20.0, std::nullopt}};
  sample.ram_total = gibibytes(4);
  sample.ram_free = gibibytes(2);
  sample.ram_available = gibibytes(3);
  sample.ram_buffers = mebibytes(64);
  sample.ram_cached = gibibytes(1);
  sample.ram_shared = mebibytes(16);
  sample.ram_anonymous = mebibytes(700);
  sample.slab_reclaimable = mebibytes(80);
  sample.ram_used = gibibytes(1) - mebibytes(64);
  sample.swap_total = Bytes{};
  sample.swap_used = Bytes{};
  sample.psi_some_avg10 = 0;
  sample.psi_full_avg10 = 0;
  sample.processes = {process(1, "systemd", 0, mebibytes(12), std::nullopt, 0),
                      process(800, "nginx", 8.5, mebibytes(40), std::nullopt, 667)};
  return sample;
}

}  // namespace headroom::tui
