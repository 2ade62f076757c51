#include "sources/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "support/test_support.h"

namespace headroom::sources {
namespace {
namespace fs = std::filesystem;

TEST(ProcessMemory, ReadsANameWithSpacesAndParentheses) {
  test::TemporaryFolder root;
  fs::create_directories(root / "proc/42");
  test::write_text(
      root / "proc/42/status",
      "Name:\tevil) name (\nVmHWM:\t    3000 kB\nVmRSS:\t    2048 kB\nRssAnon:\t 1024 kB\nRssFile:\t 512 kB\n"
      "RssShmem:\t 512 kB\nVmSwap:\t 4 kB\nThreads:\t7\n");
  test::write_text(root / "proc/42/stat",
                   "42 (evil) name () S 1 42 42 0 -1 0 0 0 0 0 150 50 0 0 20 0 7 0 1 0 0\n");
  test::write_text(root / "proc/42/smaps_rollup",
                   "00-ff ---p 00 00:00 0 [rollup]\nRss: 2048 kB\nPss:    1234 kB\n");
  const ProcessMemory memory = read_process_memory(42, ProcessDetail::with_pss, root.path());
  EXPECT_EQ(memory.rss, mebibytes(2));
  EXPECT_EQ(memory.rss_peak, kibibytes(3000));
  EXPECT_EQ(memory.anonymous, mebibytes(1));
  EXPECT_EQ(memory.pss, kibibytes(1234));
  EXPECT_EQ(memory.swapped, kibibytes(4));
  EXPECT_EQ(memory.threads, 7);
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(memory.cpu_time->seconds(), 200.0 / ticks);
}

TEST(ProcessMemory, AProcessThatHasEndedIsEmpty) {
  test::TemporaryFolder root;
  const ProcessMemory memory = read_process_memory(42, ProcessDetail::with_pss, root.path());
  EXPECT_FALSE(memory.rss);
  EXPECT_FALSE(memory.cpu_time);
}

TEST(ProcessMemory, ThePeakCanBeResetSoThatTheNextPhaseHasItsOwn) {
  if (!read_process_memory(::getpid(), ProcessDetail::status).rss_peak || !reset_peak_rss(::getpid()))
    GTEST_SKIP() << "this kernel (or emulator) cannot reset a process's peak";
  constexpr std::size_t kSize = std::size_t{64} << 20;
  const auto peak = [] { return *read_process_memory(::getpid(), ProcessDetail::status).rss_peak; };
  const Bytes before = peak();
  void* memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, kSize);
  ::munmap(memory, kSize);
  EXPECT_GE(peak() - before, mebibytes(60));
  ASSERT_TRUE(reset_peak_rss(::getpid()));
  EXPECT_LE(peak() - before, mebibytes(8));
}

}  // namespace
}  // namespace headroom::sources
