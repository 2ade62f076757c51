#include "sources/host_info.h"

#include "sources_test_support.h"

namespace headroom::sources {
namespace {

TEST(HostInfo, ThisMachineHasCpusAndMemory) {
  const HostInfo host = read_host_info();
  EXPECT_GT(host.cpus, 0);
  EXPECT_GT(host.ram_total, mebibytes(64));
  EXPECT_FALSE(host.kernel.empty());
  EXPECT_FALSE(host.machine.empty());
  EXPECT_THAT(host.headroom_version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(HostInfo, Desktop) {
  Tree tree;
  tree.file("proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 151\n"
            "model name\t: 12th Gen Intel(R) Core(TM) i7-12700\ncpu MHz\t\t: 2100.000\n");
  tree.file("etc/os-release", "NAME='Debian'\nPRETTY_NAME='Debian GNU/Linux 12 (bookworm)'\n");
  const HostInfo host = read_host_info(tree.root());
  EXPECT_EQ(host.cpu_model, "12th Gen Intel(R) Core(TM) i7-12700");
  EXPECT_EQ(host.os, "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(host.board, "");
}

TEST(HostInfo, IdentifiesJetsonBoardAndCores) {
  Tree tree;
  tree.file("proc/device-tree/model", std::string("NVIDIA Jetson Orin Nano Developer Kit\0", 38));
  tree.file("proc/cpuinfo",
            "processor\t: 0\nBogoMIPS\t: 62.50\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\n");
  tree.file("proc/meminfo", "MemTotal:        7802872 kB\n");
  tree.file("etc/os-release", "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\n");
  tree.file("var/lib/nvpmodel/status", "pmode:0002\n");
  tree.file("etc/nvpmodel.conf", "< POWER_MODEL ID=2 NAME=MODE_15W >\n");
  tree.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n");
  const HostInfo host = read_host_info(tree.root());
  EXPECT_EQ(host.board, "NVIDIA Jetson Orin Nano Developer Kit");
  EXPECT_EQ(host.cpu_model, "Cortex-A78AE");
  EXPECT_EQ(host.os, "Ubuntu 22.04.4 LTS");
  EXPECT_EQ(host.ram_total, kibibytes(7802872));
  EXPECT_EQ(host.power_mode, "MODE_15W");
  EXPECT_EQ(host.cpu_governor, "schedutil");
}

// Kernels of JetPack 4 have a "model name" that contains only the instruction set.
TEST(HostInfo, NamesEachKindOfCoreOnce) {
  const auto processor = [](const char* implementer, const char* part) {
    return std::string("processor\t: 0\nmodel name\t: ARMv8 Processor rev 3 (v8l)\nCPU implementer\t: ") +
           implementer + "\nCPU architecture: 8\nCPU part\t: " + part + "\n\n";
  };
  Tree tree;
  tree.file("proc/cpuinfo", processor("0x41", "0xd07") + processor("0x4e", "0x003") +
                                processor("0x4e", "0x003") + processor("0x41", "0xd07"));
  EXPECT_EQ(read_host_info(tree.root()).cpu_model, "Cortex-A57 + Denver 2");
  tree.file("proc/cpuinfo", processor("0x41", "0xfff"));
  EXPECT_EQ(read_host_info(tree.root()).cpu_model, "ARMv8 Processor rev 3 (v8l)");
}

TEST(HostInfo, EmptyTreeGivesEmptyFacts) {
  Tree tree;
  const HostInfo host = read_host_info(tree.root());
  EXPECT_EQ(host.os, "");
  EXPECT_EQ(host.cpu_model, "");
  EXPECT_EQ(host.board, "");
  EXPECT_EQ(host.power_mode, "");
  EXPECT_EQ(host.cpu_governor, "");
}

}  // namespace
}  // namespace headroom::sources
