#include "pool/process_bytes.h"

#include <sys/mman.h>

#include <cstring>

#include "support/test_support.h"

namespace headroom::pool {
namespace {

TEST(ProcessBytes, CountMemoryThatTheKernelCannotReclaim) {
  const headroom::test::TemporaryFolder folder;
  headroom::test::write_text(
      folder / "status",
      "Name:\tx\nVmRSS:\t 9000 kB\nRssAnon:\t 1000 kB\nRssFile:\t 5000 kB\nRssShmem:\t 200 kB\n"
      "VmPTE:\t 30 kB\nVmSwap:\t 4 kB\nThreads:\t3\n");
  EXPECT_EQ(own_bytes(folder / "status"), kibibytes(1000 + 200 + 30 + 4 + 3 * 16));
}

TEST(ProcessBytes, AreAbsentIfTheKernelLacksTheFields) {
  const headroom::test::TemporaryFolder folder;
  headroom::test::write_text(folder / "status", "Name:\tx\nVmRSS:\t 9000 kB\nThreads:\t3\n");
  EXPECT_EQ(own_bytes(folder / "status"), std::nullopt);
  EXPECT_EQ(own_bytes(folder / "absent"), std::nullopt);
}

TEST(ProcessBytes, GrowWithTouchedPages) {
  const auto before = own_bytes();
  if (!before) GTEST_SKIP() << "this kernel does not report these fields";
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  EXPECT_GE(*own_bytes() - *before, mebibytes(31));
  ::munmap(memory, kBytes);
  EXPECT_LE(*own_bytes() - *before, mebibytes(16));
}

}  // namespace
}  // namespace headroom::pool
