#include "sources/host_info.h"

#include <gtest/gtest.h>

#include "support/test_support.h"

namespace headroom::sources {
namespace {
namespace fs = std::filesystem;

TEST(HostInfo, ThisMachineHasCpusAndMemory) {
  const HostInfo host = read_host_info();
  EXPECT_GT(host.cpus, 0);
  EXPECT_GT(host.ram_total, mebibytes(64));
  EXPECT_FALSE(host.kernel.empty());
  EXPECT_FALSE(host.headroom_version.empty());
}

TEST(HostInfo, AJetsonIsKnownByItsDeviceTreeAndItsCoresByNumber) {
  test::TemporaryFolder root;
  fs::create_directories(root / "proc/device-tree");
  fs::create_directories(root / "etc");
  test::write_text(root / "proc/device-tree/model",
                   std::string("NVIDIA Jetson Orin Nano Developer Kit\0", 38));
  test::write_text(root / "proc/cpuinfo",
                   "processor\t: 0\nBogoMIPS\t: 62.50\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\n");
  test::write_text(root / "proc/meminfo", "MemTotal:        7802872 kB\n");
  test::write_text(root / "etc/os-release", "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\n");
  const HostInfo host = read_host_info(root.path());
  EXPECT_EQ(host.board, "NVIDIA Jetson Orin Nano Developer Kit");
  EXPECT_EQ(host.cpu_model, "Cortex-A78AE");
  EXPECT_EQ(host.os, "Ubuntu 22.04.4 LTS");
  EXPECT_EQ(host.ram_total, kibibytes(7802872));
}

}  // namespace
}  // namespace headroom::sources
