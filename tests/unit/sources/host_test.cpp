// Tests the figures of processes and of the host.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "base/subprocess.h"
#include "base/text.h"
#include "sources/host_info.h"
#include "sources/metric_source.h"
#include "sources/process_table.h"
#include "sources_test_support.h"

namespace headroom::sources {
namespace {
using testing::ElementsAre;
using testing::Key;

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
  ASSERT_TRUE(memory.cpu_time);
  EXPECT_DOUBLE_EQ(memory.cpu_time->seconds(), 200.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(memory, (ProcessMemory{mebibytes(2),
                                   kibibytes(3000),
                                   mebibytes(1),
                                   kibibytes(640),
                                   kibibytes(384),
                                   kibibytes(1234),
                                   kibibytes(4),
                                   memory.cpu_time,
                                   7,
                                   {},
                                   kibibytes(8),
                                   kibibytes(7)}));
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
TEST(ProcessMemory, EndedProcessHasNoMemory) {
  Tree tree;
  EXPECT_EQ(read_process_memory(42, ProcessDetail::with_pss, tree.root()), ProcessMemory{});
  tree.file("proc/42/status", "Name:\tmodel\nState:\tZ (zombie)\nThreads:\t1\n");
  tree.file("proc/42/stat", "42 (model) Z 1 42\n");
  const ProcessMemory memory = read_process_memory(42, ProcessDetail::with_pss, tree.root());
  EXPECT_EQ(memory.rss, std::nullopt);
  EXPECT_EQ(memory.cpu_time, std::nullopt);
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

// Model pools that publish their metrics, in a file tree that replaces the machine's.

PoolSample pool_of(const std::string& name, std::int64_t pid, std::int64_t used) {
  PoolSample pool;
  pool.name = name;
  pool.pid = pid;
  pool.device = "cpu";
  pool.budget = mebibytes(64);
  pool.used = {used};
  return pool;
}

class PoolSource : public ::testing::Test {
 protected:
  void process(std::int64_t pid, std::int64_t start_ticks) const {
    std::string stat = std::to_string(pid) + " (a (odd) name) S";
    for (int field = 4; field < 22; ++field) stat += " 0";
    tree_.file("proc/" + std::to_string(pid) + "/stat", stat + " " + std::to_string(start_ticks) + " 0 0\n");
  }
  void status(const PoolSample& pool, std::int64_t start_ticks, const std::string& file = "") const {
    const std::string name = "headroom-pool." + std::to_string(pool.pid) + "." + pool.name;
    tree_.file("dev/shm/" + (file.empty() ? name : file), pool_status_text(pool, start_ticks, ++sequence_));
  }
  static std::vector<PoolSample> read(MetricSource& source) {
    SystemSample sample;
    EXPECT_TRUE(source.read(sample));
    return sample.pools;
  }
  Tree tree_;
  mutable std::int64_t sequence_ = 0;
};

TEST_F(PoolSource, AppearsWithTheFirstPool) {
  EXPECT_EQ(make_pool_source(tree_.root()), nullptr);
  tree_.file("dev/shm/other", "x");
  EXPECT_EQ(make_pool_source(tree_.root()), nullptr);
  process(17, 5);
  status(pool_of("vision", 17, 100), 5);
  const auto source = make_pool_source(tree_.root());
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(read(*source), (std::vector<PoolSample>{pool_of("vision", 17, 100)}));
  status(pool_of("vision", 17, 200), 5);
  EXPECT_EQ(read(*source)[0].used.count, 200);
  tree_.file("dev/shm/headroom-pool.17.vision", "half of a te");
  EXPECT_EQ(read(*source)[0].used.count, 200) << "the last complete content";
}

TEST_F(PoolSource, IgnoresInvalidFiles) {
  process(17, 5);
  status(pool_of("vision", 17, 1), 6);                           // another process has this pid now
  status(pool_of("gone", 18, 1), 5);                             // its process has ended
  status(pool_of("twice", 17, 1), 5, "headroom-pool.17.other");  // the file name does not match the content
  tree_.file("dev/shm/headroom-pool.17.noise", std::string(5000, 'x'));
  ASSERT_EQ(::mkfifo((tree_.root() / "dev/shm/headroom-pool.17.fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/etc/passwd", tree_.root() / "dev/shm/headroom-pool.17.link");
  EXPECT_EQ(make_pool_source(tree_.root()), nullptr);
}

// A tree may come from a stranger.
TEST(HostileTree, ReadsNeitherEndlessFilesNorFifosForEver) {
  const Tree tree;
  for (const char* file :
       {"proc/meminfo", "proc/vmstat", "proc/stat", "proc/100/stat", "proc/pressure/memory"}) {
    tree.file(file, "");
    std::filesystem::remove(tree.root() / file);
    std::filesystem::create_symlink("/dev/full", tree.root() / file);  // zeros without end
  }
  tree.sample();
  SystemSample sample;
  ProcessTable(tree.root()).read(sample, ProcessChoice{});
  EXPECT_TRUE(sample.processes.empty());
  for (const char* file : {"proc/meminfo", "proc/100/stat"}) {
    std::filesystem::remove(tree.root() / file);
    ASSERT_EQ(::mkfifo((tree.root() / file).c_str(), 0600), 0);
  }
  tree.sample();
  ProcessTable(tree.root()).read(sample, ProcessChoice{});
  EXPECT_TRUE(sample.processes.empty());
}

void add_process(const Tree& tree, int pid, int parent, const std::string& name, int pages = 5,
                 int started = 5) {
  const std::string folder = "proc/" + std::to_string(pid);
  tree.file(folder + "/stat", std::to_string(pid) + " (" + name + ") S " + std::to_string(parent) +
                                  " 1 1 0 -1 4194560 1 1 1 1 0 0 0 0 20 0 3 0 " + std::to_string(started) +
                                  " 100000 " + std::to_string(pages) + " 1 1\n");
  tree.file(folder + "/status", "Name:\tx\nUid:\t1000\t0\t0\t0\nVmSwap:\t   12 kB\n");
  tree.file(folder + "/oom_score", "667\n");
  tree.file(folder + "/oom_score_adj", "-5\n");
  tree.file(folder + "/smaps_rollup", "x\nRss: 10 kB\nPss:   7 kB\nPss_Anon: 5 kB\n");
  for (const char* number : {"0", "1", "2", "14"}) tree.file(folder + "/fd/" + number, "");
}

// Of the process and its descendants.
ProcessChoice tree_of(int pid, bool with_pss = false) {
  ProcessChoice choice;
  choice.roots = {pid};
  choice.with_pss = with_pss;
  return choice;
}

// Names the processes, smallest number first.
std::map<std::int64_t, ProcessSample> read(ProcessTable& table, const ProcessChoice& choice) {
  SystemSample sample;
  table.read(sample, choice);
  std::map<std::int64_t, ProcessSample> processes;
  for (const ProcessSample& process : sample.processes) processes.emplace(process.pid, process);
  return processes;
}

TEST(ProcessTable, CountsOpenDescriptors) {
  Tree tree;
  tree.file("proc/sys/fs/file-nr", "2144\t0\t9223372036854775807\n");
  EXPECT_EQ(SystemSampler(tree.root()).sample().open_files, 2144);
  ProcessTable table("/");
  const auto own = [&] { return read(table, tree_of(::getpid()))[::getpid()].descriptors; };
  const auto before = own();
  ASSERT_TRUE(before);
  std::vector<UniqueFd> opened;
  for (int i = 0; i < 20; ++i) opened.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(own(), *before + 20);
}

TEST(ProcessTable, ListsTheLargestWithTheirGpuMemory) {
  Tree tree;
  tree.file("etc/passwd", "root:x:0:0::/root:/bin/sh\nrobot:x:1000:1000::/home/robot:/bin/sh\nbad\n");
  add_process(tree, 10, 1, "small", 1);
  add_process(tree, 20, 1, "a name) (odd", 300);
  add_process(tree, 30, 1, "on the GPU", 2);
  tree.file("sys/kernel/debug/nvmap/iovmm/clients", "user on 30 100M\ntotal 100M\n");
  SystemSampler sampler(tree.root());
  ProcessTable table(tree.root());
  SystemSample sample = sampler.sample();
  ProcessChoice choice;
  choice.largest = 2;
  choice.with_pss = true;
  table.read(sample, choice);
  EXPECT_EQ(sample.nvmap_used, mebibytes(100));
  ASSERT_EQ(sample.processes.size(), 2U);
  EXPECT_EQ(sample.processes[0].pid, 30);
  EXPECT_EQ(sample.processes[0].gpu, mebibytes(100));
  const ProcessSample& odd = sample.processes[1];
  EXPECT_EQ(odd.name, "a name) (odd");
  EXPECT_EQ(odd.rss, kibibytes(10));
  EXPECT_EQ(odd.pss, kibibytes(7));
  EXPECT_EQ(odd.swapped, kibibytes(12));
  EXPECT_EQ(odd.oom_score, 667);
  EXPECT_EQ(odd.oom_score_adj, -5);
  EXPECT_EQ(odd.threads, 3);
  EXPECT_EQ(odd.descriptors, 4);
  EXPECT_EQ(odd.user, "robot");
  EXPECT_EQ(odd.gpu, std::nullopt);
}

TEST(ProcessTable, FollowsATreeAfterItsParentEnded) {
  Tree tree;
  add_process(tree, 100, 1, "app");
  add_process(tree, 50, 100, "child");  // pids have wrapped around
  add_process(tree, 51, 50, "grandchild");
  add_process(tree, 200, 1, "other", 500);
  ProcessTable table(tree.root());
  EXPECT_THAT(read(table, tree_of(100)), ElementsAre(Key(50), Key(51), Key(100)));
  std::filesystem::remove_all(tree.root() / "proc/100");
  add_process(tree, 50, 1, "child");
  EXPECT_THAT(read(table, tree_of(100)), ElementsAre(Key(50), Key(51)));
  add_process(tree, 51, 1, "another with its number", 5, 999);
  EXPECT_THAT(read(table, tree_of(100)), ElementsAre(Key(50)));
  add_process(tree, 100, 1, "stranger", 50, 999);
  add_process(tree, 102, 100, "its child", 50, 1000);
  EXPECT_THAT(read(table, tree_of(100)), ElementsAre(Key(50)));
}

// For a stopped process, exact to the byte.
TEST(ProcessTable, EqualsKernelFigures) {
  SpawnOptions options;
  options.command = {"sh", "-c", "x=$(head -c 20000000 /dev/zero | tr '\\0' x); kill -STOP $$"};
  auto child = Subprocess::spawn(options);
  ASSERT_TRUE(child) << child.error().sentence();
  const std::string folder = "/proc/" + std::to_string(child->pid());
  const auto field = [&](const char* file, std::string_view key) {
    const std::string text = test::read_text(folder + "/" + file);
    for (const std::string_view line : split(text, '\n'))
      if (line.starts_with(key))
        return parse_number<std::int64_t>(trim(line.substr(key.size(), line.find("kB") - key.size())))
            .value_or(-1);
    return std::int64_t{-1};
  };
  for (int tries = 0; tries < 6000 && test::read_text(folder + "/stat").find(") T ") == std::string::npos;
       ++tries)
    ::usleep(10'000);
  if (field("smaps_rollup", "Rss:") < 0) GTEST_SKIP() << "this kernel (or emulator) has no smaps_rollup";
  ProcessTable table("/");
  const auto processes = read(table, tree_of(child->pid(), true));
  ASSERT_EQ(processes.size(), 1U);
  const ProcessSample& process = processes.at(child->pid());
  EXPECT_EQ(process.rss, kibibytes(field("smaps_rollup", "Rss:")));
  EXPECT_GE(process.pss, Bytes{20'000'000});  // shared pages are divided among all current users
  EXPECT_LE(process.pss, process.rss);
  EXPECT_EQ(process.swapped, kibibytes(field("status", "VmSwap:")));
  EXPECT_EQ(read(table, tree_of(child->pid())).at(child->pid()).rss, kibibytes(field("status", "VmRSS:")));
}

}  // namespace
}  // namespace headroom::sources
