// Findings from samples of a machine: memory, swap and GPUs. A healthy machine has none.
#include "doctor/machine/machine_history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "machine_samples.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::MachineHistory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Measured with a program that reads 192 MiB of mapped weights in a group of 128 MiB, on a fast disk.
void thrash_in_group(SystemSample& sample) {
  sample.refaults = 470'000;
  sample.psi_some_stalled = Nanoseconds{80'000'000};
  sample.psi_some_avg10 = 7.5;
  sample.cgroup = CgroupMemory{mebibytes(127), {}, mebibytes(128), mebibytes(1), {}, {}, {}, {}};
}

// All memory except 2,752 MiB is in a figure of the kernel.
void hide_memory(SystemSample& sample) {
  sample.ram_buffers = sample.slab_reclaimable = sample.slab_unreclaimable = mebibytes(100);
  sample.ram_cached = gibibytes(2);
  sample.ram_anonymous = gibibytes(1);
  sample.page_tables = mebibytes(20);
}

// Swap was full while half of the memory was free; later little memory was left, and the swap was empty.
void fill_swap_and_memory_apart(int i, SystemSample& sample) {
  if (i == 3) sample.swap_used = gibibytes(4) - mebibytes(100);
  if (i == 7) sample.ram_available = mebibytes(1200);
}

// The findings have these names, with spaces between them.
void expect_ids(std::string_view names, int seconds, const std::function<void(int, SystemSample&)>& change) {
  EXPECT_EQ(fmt::format("{}", fmt::join(ids(findings_of(seconds, change)), " ")), names);
}

TEST(MachineFindings, DependOnAllFiguresOfAMoment) {
  for (const int seconds : {0, 1, 300}) expect_ids("", seconds, [](int, SystemSample&) {});
  // Memory goes up and down.
  expect_ids("", 300,
             [](int i, SystemSample& sample) { *sample.ram_available += mebibytes(i * 7919 % 300); });
  expect_ids("swap-thrash", 30, [](int, SystemSample& sample) {
    sample.refaults = 80'000;
    sample.psi_full_stalled = Nanoseconds{500'000'000};
    sample.psi_some_stalled = Nanoseconds{700'000'000};
    sample.psi_full_avg10 = 50;
    sample.psi_some_avg10 = 70;
  });
  // Many files are read, and no task waits.
  expect_ids("", 30, [](int, SystemSample& sample) { sample.refaults = 80'000; });
  // The group has free memory: others read the files.
  expect_ids("", 30, [](int, SystemSample& sample) {
    thrash_in_group(sample);
    sample.cgroup->current = mebibytes(60);
  });
  // No task of the group waits: the cache works normally.
  expect_ids("", 30, [](int, SystemSample& sample) {
    thrash_in_group(sample);
    sample.psi_some_stalled = Nanoseconds{1'000'000};
  });
  // Idle pages in swap; half of the memory is available.
  expect_ids("", 5, [](int, SystemSample& sample) { sample.swap_used = gibibytes(4); });
  expect_ids("", 9, fill_swap_and_memory_apart);
  // No NvMap needs the free memory.
  expect_ids("", 5, [](int, SystemSample& sample) { sample.ram_free = mebibytes(120); });
  // Swap is known at the lowest moment.
  for (const bool with_swap : {true, false})
    expect_ids(with_swap ? "little-memory-left" : "no-swap-no-reserve", 5, [&](int i, SystemSample& sample) {
      if (i == 2) sample.ram_available = mebibytes(400);
      if ((i == 2) != with_swap) sample.swap_total = Bytes{};
    });
  // Huge pages, zram and NvMap explain the rest of the memory, and without page tables it is not known.
  expect_ids("memory-of-no-process", 5, [](int, SystemSample& sample) { hide_memory(sample); });
  for (auto figure : {&SystemSample::huge_pages_total, &SystemSample::zram_used, &SystemSample::nvmap_used,
                      &SystemSample::page_tables})
    expect_ids("", 5, [&](int, SystemSample& sample) {
      hide_memory(sample);
      sample.*figure = figure == &SystemSample::page_tables ? std::nullopt : std::optional(gibibytes(2));
    });
  expect_ids("", 5, [](int, SystemSample& sample) { sample.gpus = {gpu_with(gibibytes(20))}; });
}

// A log may contain several machines. The lowest free memory is reported with the total of its own machine,
// and with its time.
TEST(MachineFindings, WorstMomentKeepsItsTotal) {
  const Finding finding =
      only("little-memory-left", findings_of(40, [](int i, SystemSample& sample) {
             sample.ram_total = i < 20 ? gibibytes(4) : gibibytes(64);
             sample.swap_total = gibibytes(2);
             sample.ram_available = i == 12 ? mebibytes(100) : i < 20 ? gibibytes(2) : gibibytes(40);
           }));
  EXPECT_THAT(finding.title, HasSubstr("100.0 MiB of 4.00 GiB"));
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("12.000 s after the first of 40 samples"));
}

TEST(MachineFindings, FindsThrashingInFullControlGroup) {
  // The last sample may have no group or another one.
  const Finding finding = only("control-group-thrash", findings_of(30, [](int i, SystemSample& sample) {
                                 if (i < 20) thrash_in_group(sample);
                               }));
  EXPECT_EQ(finding.severity, Severity::severe);
  EXPECT_EQ(std::get<std::string>(finding.figures[0].value), "control group");
  EXPECT_EQ(finding.cures[0].command, "headroom run --limit 256MiB -- COMMAND");
  // A dataset that is read repeatedly from a slow disk.
  const auto slowly = findings_of(30, [](int, SystemSample& sample) {
    thrash_in_group(sample);
    sample.refaults = 9'000;
  });
  EXPECT_EQ(only("control-group-thrash", slowly).severity, Severity::warning);
}

TEST(MachineFindings, ReportsLargeZram) {
  const Finding large = only("zram-takes-much", findings_of(5, [](int, SystemSample& sample) {
                               sample.zram_original = gibibytes(6);
                               sample.zram_used = gibibytes(2) + mebibytes(100);
                             }));
  EXPECT_EQ(large.cures[0].saves, gibibytes(2) + mebibytes(100));
}

TEST(MachineFindings, ReportsUnaccountedMemory) {
  const Finding finding =
      only("memory-of-no-process", findings_of(5, [](int, SystemSample& sample) { hide_memory(sample); }));
  EXPECT_EQ(finding.severity, Severity::note);
  EXPECT_EQ(number_figure(finding, "unaccounted_bytes"), (gibibytes(3) - mebibytes(320)).count);
}

TEST(MachineFindings, ReportsPageCacheThatStarvesNvMap) {
  const Finding finding = only("page-cache-starves-nvmap", findings_of(9, [](int i, SystemSample& sample) {
                                 sample.nvmap_used = gibibytes(1);
                                 if (i >= 2 && i < 6) sample.ram_free = mebibytes(120);
                               }));
  EXPECT_EQ(finding.cures[0].saves, gibibytes(4) - mebibytes(120));
  EXPECT_EQ(number_figure(finding, "starved_seconds"), 4);
}

TEST(MachineFindings, ReportsKillsGroupsZramDesktopAndHeat) {
  const auto findings = findings_of(5, [](int i, SystemSample& sample) {
    if (i == 3) {
      sample.oom_kills = 1;
      sample.kernel_events = {{KernelEventKind::oom_kill, 7, "app", "Killed process 7 (app)"}};
    }
    sample.cgroup = CgroupMemory{};
    sample.cgroup->limit = mebibytes(100);
    sample.cgroup->anonymous = mebibytes(95);
    sample.zram_original = mebibytes(1000);
    sample.zram_used = mebibytes(900);
    sample.throttled = i > 2;
    sample.processes = {process(20, "gnome-shell", mebibytes(210))};
  });
  EXPECT_THAT(ids(findings), ElementsAre("kernel-oom-kill", "control-group-nearly-full", "zram-saves-little",
                                         "desktop-running", "throttled"));
  EXPECT_EQ(findings[0].evidence[0].text, "Killed process 7 (app)");
  EXPECT_EQ(findings[3].cures[0].saves, mebibytes(210));
}

// The machine's counter includes kills in other groups.
TEST(MachineFindings, KillInOtherGroupIsAWarning) {
  for (const std::int64_t own : {0, 1}) {
    const Finding finding = only("kernel-oom-kill", findings_of(5, [own](int i, SystemSample& sample) {
                                   if (i == 3) sample.oom_kills = 1;
                                   sample.cgroup = CgroupMemory{};
                                   sample.cgroup->limit = mebibytes(100);
                                   sample.cgroup->oom_kills = 4 + (i >= 3 ? own : 0);
                                 }));
    EXPECT_EQ(finding.severity, own == 0 ? Severity::warning : Severity::severe);
  }
}

TEST(MachineFindings, FullGpuNamesLargestProcess) {
  const Finding finding = only("gpu-memory-nearly-full", findings_of(5, [](int, SystemSample& sample) {
                                 sample.gpus = {gpu_with(gibibytes(23), 1)};
                                 sample.gpus[0].processes = {{GpuProcess{11, mebibytes(300), {}, {}},
                                                              GpuProcess{12, gibibytes(22), {}, {}}}};
                               }));
  EXPECT_EQ(finding.severity, Severity::note);
  EXPECT_EQ(finding.cures[0].command, "kill 12");
  EXPECT_EQ(finding.cures[0].saves, gibibytes(22));
}

// Memory that the driver reserves is neither used nor free.
TEST(MachineFindings, ReservedGpuMemoryIsNotFree) {
  const struct {
    std::optional<Bytes> free, reserved;
    const char* told;
  } cases[] = {{mebibytes(100), mebibytes(600), "100.0 MiB"},
               {mebibytes(90), {}, "90.0 MiB"},
               {{}, mebibytes(500), "200.0 MiB"},
               {{}, {}, "700.0 MiB"}};
  for (const auto& each : cases) {
    const auto findings = findings_of(5, [&](int, SystemSample& sample) {
      sample.gpus = {gpu_with(gibibytes(24) - mebibytes(700))};
      sample.gpus[0].memory_free = each.free;
      sample.gpus[0].memory_reserved = each.reserved;
    });
    EXPECT_EQ(only("gpu-memory-nearly-full", findings).title,
              std::string("GPU 0 has ") + each.told + " of 24.00 GiB free");
  }
}

TEST(MachineFindings, NamesFullestOfSeveralGpus) {
  const Finding finding =
      only("gpu-memory-nearly-full", findings_of(5, [](int, SystemSample& sample) {
             for (const int index : {0, 1, 2})
               sample.gpus.push_back(gpu_with(gibibytes(24) - mebibytes(index == 1 ? 50 : 400), index));
           }));
  EXPECT_EQ(finding.title, "GPU 1 has 50.0 MiB of 24.00 GiB free, and 2 others hardly more");
}

// At the fullest moment of a GPU, the least memory was free. No cure ends a process of that time.
TEST(MachineFindings, ReportsGpuThatWasFullEarlier) {
  const Finding finding =
      only("gpu-memory-nearly-full", findings_of(9, [](int i, SystemSample& sample) {
             sample.gpus = {gpu_with(i == 4 ? gibibytes(22) : mebibytes(22 * 1024 + 400))};
             sample.gpus[0].memory_reserved = i == 4 ? mebibytes(1948) : mebibytes(100);
             sample.gpus[0].processes = {{GpuProcess{12, gibibytes(22), {}, {}}}};
           }));
  EXPECT_EQ(finding.title, "GPU 0 had 100.0 MiB of 24.00 GiB free");
  EXPECT_THAT(finding.evidence.at(0).text, HasSubstr("4.000 s after the first"));
  EXPECT_EQ(finding.cures[0].command, "headroom top");
}

TEST(MachineFindings, ReportsFragmentationAfterHalfAMinute) {
  const auto of = [](Nanoseconds in_pieces) {
    MachineHistory history;
    for (int i = 0; i < 60; ++i) history.add(sample_at(i));
    history.in_pieces = in_pieces;
    history.worst_factor = 8;
    return machine_findings(history, "watch.jsonl");
  };
  EXPECT_THAT(ids(of({29'000'000'000})), ElementsAre());
  const Finding finding = only("free-memory-in-pieces", of({30'000'000'000}));
  EXPECT_EQ(finding.severity, Severity::warning);
  EXPECT_THAT(finding.title, HasSubstr("8.0 times smaller than before"));
}

TEST(MachineFindings, ReportsControlGroupThatWasFullEarlier) {
  const Finding finding = only("control-group-nearly-full", findings_of(9, [](int i, SystemSample& sample) {
                                 sample.cgroup.emplace();
                                 sample.cgroup->limit = mebibytes(1000);
                                 sample.cgroup->anonymous = mebibytes(i == 4 ? 990 : 100);
                               }));
  EXPECT_THAT(finding.title, HasSubstr("The control group held 990.0 MiB"));
}

TEST(MachineFindings, CuresUseNumbersOfTheMachine) {
  const auto findings = findings_of(5, [](int, SystemSample& sample) {
    sample.nvmap_used = gibibytes(1);
    sample.ram_free = mebibytes(300);
    sample.swap_total = Bytes{};
    sample.ram_available = gibibytes(2);
    sample.cgroup = CgroupMemory{};
    sample.cgroup->limit = mebibytes(320);
    sample.cgroup->anonymous = mebibytes(300);
  });
  ASSERT_THAT(ids(findings), ElementsAre("page-cache-starves-nvmap", "control-group-nearly-full"));
  EXPECT_EQ(findings[0].cures[1].command, "sudo sysctl vm.min_free_kbytes=279620") << "a 30th of 8 GiB";
  EXPECT_EQ(findings[1].cures[0].command, "docker update --memory=401m --memory-swap=802m CONTAINER");
  const Finding low = only("no-swap-no-reserve", findings_of(5, [](int, SystemSample& sample) {
                             sample.swap_total = Bytes{};
                             *sample.ram_available = mebibytes(500);
                           }));
  EXPECT_THAT(low.cures[1].command, StartsWith("sudo fallocate -l 4G ")) << "half of the memory";
}

TEST(MachineFindings, ComparesSwapAndMemoryOfOneMoment) {
  const Finding finding = only("swap-nearly-full", findings_of(9, [](int i, SystemSample& sample) {
                                 fill_swap_and_memory_apart(i, sample);
                                 if (i != 5) return;
                                 sample.swap_used = gibibytes(4) - mebibytes(200);
                                 sample.ram_available = mebibytes(1500);
                               }));
  EXPECT_EQ(finding.title,
            "3.80 GiB of 4.00 GiB of swap were in use, and 1.46 GiB of 8.00 GiB of memory were available");
  EXPECT_THAT(finding.evidence.at(0).text, HasSubstr("5.000 s after the first of 9 samples"));
  EXPECT_THAT(finding.cures.at(1).command, HasSubstr("swapon /swapfile.headroom"))
      << "the full swap may use the usual file name";
}

// A missing figure is not zero.
TEST(MachineFindings, UnknownSwapIsNotMissingSwap) {
  const Finding finding = only("little-memory-left", findings_of(5, [](int, SystemSample& sample) {
                                 sample.swap_total.reset();
                                 sample.ram_available = mebibytes(400);
                               }));
  EXPECT_THAT(finding.title, Not(HasSubstr("swap")));
  EXPECT_THAT(finding.cause, HasSubstr("if there is any"));
}

}  // namespace
}  // namespace headroom::test
