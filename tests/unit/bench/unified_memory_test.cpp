#include "bench/conductor/unified_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/test_support.h"

namespace headroom::bench {
namespace {

// The strings of the kernel's device tree end with a zero byte each.
void write_compatible(const std::filesystem::path& root, const std::string& strings) {
  std::filesystem::create_directories(root / "proc/device-tree");
  std::ofstream(root / "proc/device-tree/compatible", std::ios::binary) << strings;
}

TEST(UnifiedMemory, RecognizesAJetsonByItsDeviceTree) {
  const test::TemporaryFolder root;
  write_compatible(root.path(), std::string("nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0", 45));
  EXPECT_TRUE(is_tegra(root.path()));
}

TEST(UnifiedMemory, DoesNotTakeARaspberryPiForATegra) {
  const test::TemporaryFolder root;
  write_compatible(root.path(), std::string("raspberrypi,5-model-b\0brcm,bcm2712\0", 35));
  EXPECT_FALSE(is_tegra(root.path()));
}

TEST(UnifiedMemory, DoesNotTakeAMachineWithoutDeviceTreeForATegra) {
  EXPECT_FALSE(is_tegra(test::TemporaryFolder().path()));
}

}  // namespace
}  // namespace headroom::bench
