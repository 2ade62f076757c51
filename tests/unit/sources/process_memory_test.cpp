#include "sources/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "sources_test_support.h"

namespace headroom::sources {
namespace {

TEST(ProcessMemory, ReadsANameWithSpacesAndParentheses) {
  Tree tree;
  tree.file(
      "proc/42/status",
      "Name:\tevil) name (\nVmHWM:\t    3000 kB\nVmRSS:\t    2048 kB\nRssAnon:\t 1024 kB\nRssFile:\t 640 "
      "kB\nRssShmem:\t 384 kB\nVmSwap:\t 4 kB\nThreads:\t7\n");
  tree.file("proc/42/stat", "42 (evil) name () S 1 42 42 0 -1 0 0 0 0 0 150 50 0 0 20 0 7 0 1 0 0\n");
  tree.file("proc/42/smaps_rollup",
            "00-ff ---p 00 00:00 0 [rollup]\nRss: 2048 kB\nPss:    1234 kB\nPss_Anon: 9 kB\nPss_File: 8 "
            "kB\nPss_Shmem: 7 kB\n");
  const ProcessMemory memory = read_process_memory(42, ProcessDetail::with_pss, tree.root());
  EXPECT_EQ(memory.rss, mebibytes(2));
  EXPECT_EQ(memory.rss_peak, kibibytes(3000));
  EXPECT_EQ(memory.anonymous, mebibytes(1));
  EXPECT_EQ(memory.file_backed, kibibytes(640));
  EXPECT_EQ(memory.shared, kibibytes(384));
  EXPECT_EQ(memory.pss, kibibytes(1234));
  EXPECT_EQ(memory.pss_file, kibibytes(8));
  EXPECT_EQ(memory.pss_shared, kibibytes(7));
  EXPECT_EQ(memory.swapped, kibibytes(4));
  EXPECT_EQ(memory.threads, 7);
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(memory.cpu_time.value().seconds(), 200.0 / ticks);
  EXPECT_EQ(read_process_memory(42, ProcessDetail::status, tree.root()).pss, std::nullopt);
}

TEST(ProcessMemory, SumsPssOverMappingsBeforeLinux414) {
  Tree tree;
  tree.file("proc/42/status", "VmRSS:\t 100 kB\n");
  tree.file("proc/42/smaps",
            "1000-2000 r-xp 00000000 08:01 1 /bin/Pss: 99 kB\nRss: 8 kB\nPss: 3 kB\n2000-3000 rw-p 0 0 "
            "0\nPss: 40 kB\n");
  EXPECT_EQ(read_process_memory(42, ProcessDetail::with_pss, tree.root()).pss, kibibytes(43));
}

// A process that has ended but was not waited for has a status file, but no memory.
TEST(ProcessMemory, ZombieHasNoMemory) {
  Tree tree;
  tree.file("proc/42/status", "Name:\tmodel\nState:\tZ (zombie)\nThreads:\t1\n");
  tree.file("proc/42/stat", "42 (model) Z 1 42\n");
  const ProcessMemory memory = read_process_memory(42, ProcessDetail::with_pss, tree.root());
  EXPECT_EQ(memory.rss, std::nullopt);
  EXPECT_EQ(memory.cpu_time, std::nullopt);
}

TEST(ProcessMemory, EndedProcessIsEmpty) {
  Tree tree;
  EXPECT_EQ(read_process_memory(42, ProcessDetail::with_pss, tree.root()), ProcessMemory{});
}

TEST(ProcessMemory, ReadsThisProcess) {
  const ProcessMemory memory = read_process_memory(::getpid(), ProcessDetail::with_pss);
  if (!memory.rss || !memory.anonymous) GTEST_SKIP() << "this kernel (or emulator) gives no such figures";
  EXPECT_EQ(*memory.rss, *memory.anonymous + *memory.file_backed + *memory.shared);
  EXPECT_LE(*memory.rss, *memory.rss_peak);
  EXPECT_GE(memory.threads, 1);
}

TEST(ProcessMemory, ResetsThePeak) {
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
