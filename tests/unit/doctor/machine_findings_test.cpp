// Findings from samples of a machine: memory, swap and GPUs. A healthy machine has none.
#include "doctor/machine/machine_findings.h"

#include "machine_samples.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::MachineHistory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(MachineFindings, HealthyMachineHasNoFindings) {
  EXPECT_THAT(ids(findings_of(300, [](int, SystemSample&) {})), IsEmpty());
  EXPECT_THAT(ids(findings_of(1, [](int, SystemSample&) {})), IsEmpty());
  EXPECT_THAT(ids(findings_of(0, [](int, SystemSample&) {})), IsEmpty());
  // Memory that goes up and down.
  EXPECT_THAT(
      ids(findings_of(
          300, [](int i, SystemSample& sample) { *sample.ram_available += mebibytes(i * 7919 % 300); })),
      IsEmpty());
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
  EXPECT_THAT(finding.title, testing::HasSubstr("100.0 MiB of 4.00 GiB"));
  EXPECT_THAT(finding.evidence[0].text, testing::HasSubstr("12.000 s after the first of 40 samples"));
}

TEST(MachineFindings, RefaultsAreThrashingOnlyIfTasksWait) {
  const auto thrash = [](int, SystemSample& sample) {
    sample.refaults = 80'000;
    sample.psi_full_stalled = Nanoseconds{500'000'000};
    sample.psi_some_stalled = Nanoseconds{700'000'000};
    sample.psi_full_avg10 = 50;
    sample.psi_some_avg10 = 70;
  };
  ASSERT_THAT(ids(findings_of(30, thrash)), ElementsAre("swap-thrash"));
  // Reading many files is not thrashing.
  EXPECT_THAT(ids(findings_of(30, [](int, SystemSample& sample) { sample.refaults = 80'000; })), IsEmpty());
}

// Measured with a program that reads 192 MiB of mapped weights in a group of 128 MiB, on a fast disk.
TEST(MachineFindings, FindsThrashingInFullControlGroup) {
  const auto thrash = [](int, SystemSample& sample) {
    sample.refaults = 470'000;
    sample.psi_some_stalled = Nanoseconds{80'000'000};
    sample.psi_some_avg10 = 7.5;
    sample.cgroup = CgroupMemory{};
    sample.cgroup->limit = mebibytes(128);
    sample.cgroup->current = mebibytes(127);
    sample.cgroup->anonymous = mebibytes(1);
  };
  const Finding finding = only("control-group-thrash", findings_of(30, thrash));
  EXPECT_EQ(finding.severity, Severity::severe);
  EXPECT_EQ(std::get<std::string>(finding.figures[0].value), "control group");
  EXPECT_EQ(finding.cures[0].command, "headroom run --limit 256MiB -- COMMAND");
  // A dataset that is read repeatedly from a slow disk.
  const auto slowly = findings_of(30, [&](int i, SystemSample& sample) {
    thrash(i, sample);
    sample.refaults = 9'000;
  });
  ASSERT_EQ(slowly.size(), 1U);
  EXPECT_EQ(slowly[0].severity, Severity::warning);
  // If the group has free memory, other processes read the files. If no task waits, the cache works
  // normally.
  EXPECT_THAT(ids(findings_of(30,
                              [&](int i, SystemSample& sample) {
                                thrash(i, sample);
                                sample.cgroup->current = mebibytes(60);
                              })),
              IsEmpty());
  EXPECT_THAT(ids(findings_of(30,
                              [&](int i, SystemSample& sample) {
                                thrash(i, sample);
                                sample.psi_some_stalled = Nanoseconds{1'000'000};
                              })),
              IsEmpty());
}

TEST(MachineFindings, ReportsFullSwapAndLargeZram) {
  const Finding full = only("swap-nearly-full", findings_of(5, [](int, SystemSample& sample) {
                              sample.ram_available = sample.ram_free = mebibytes(1200);
                              sample.swap_used = gibibytes(4) - mebibytes(100);
                            }));
  EXPECT_THAT(ids(findings_of(5, [](int, SystemSample& sample) { sample.swap_used = gibibytes(4); })),
              IsEmpty())
      << "idle pages in swap; half of the memory is available";
  const Finding large = only("zram-takes-much", findings_of(5, [](int, SystemSample& sample) {
                               sample.zram_original = gibibytes(6);
                               sample.zram_used = gibibytes(2) + mebibytes(100);
                             }));
  EXPECT_EQ(large.cures[0].saves, gibibytes(2) + mebibytes(100));
}

TEST(MachineFindings, ReportsUnaccountedMemoryWithoutHugePagesAndZram) {
  const auto hidden = [](int, SystemSample& sample) {
    sample.ram_buffers = mebibytes(100);
    sample.ram_cached = gibibytes(2);
    sample.ram_anonymous = gibibytes(1);
    sample.slab_reclaimable = sample.slab_unreclaimable = mebibytes(100);
    sample.page_tables = mebibytes(20);
  };
  const Finding finding = only("memory-of-no-process", findings_of(5, hidden));
  EXPECT_EQ(finding.severity, Severity::note);
  EXPECT_EQ(std::get<std::int64_t>(finding.figures[0].value), (gibibytes(3) - mebibytes(320)).count);
  const auto with = [&](auto change) {
    return ids(findings_of(5, [&](int i, SystemSample& sample) {
      hidden(i, sample);
      change(sample);
    }));
  };
  EXPECT_THAT(with([](SystemSample& sample) { sample.huge_pages_total = gibibytes(2); }), IsEmpty());
  EXPECT_THAT(with([](SystemSample& sample) {
                sample.zram_original = gibibytes(6);
                sample.zram_used = gibibytes(2) - mebibytes(100);
              }),
              IsEmpty());
  EXPECT_THAT(with([](SystemSample& sample) { sample.nvmap_used = gibibytes(2); }), IsEmpty());
  EXPECT_THAT(with([](SystemSample& sample) { sample.page_tables.reset(); }), IsEmpty()) << "not known";
}

TEST(MachineFindings, PageCacheStarvesNvMapOnlyIfNvMapExists) {
  const auto starve = [](int, SystemSample& sample) { sample.ram_free = mebibytes(120); };
  EXPECT_THAT(ids(findings_of(5, starve)), IsEmpty());
  const Finding finding = only("page-cache-starves-nvmap", findings_of(5, [&](int i, SystemSample& sample) {
                                 starve(i, sample);
                                 sample.nvmap_used = gibibytes(1);
                               }));
  EXPECT_EQ(finding.cures[0].saves, gibibytes(4) - mebibytes(120));
}

TEST(MachineFindings, ReportsLittleMemoryWithAndWithoutSwap) {
  const auto little = [](int, SystemSample& sample) {
    sample.ram_available = sample.ram_free = mebibytes(400);
  };
  EXPECT_THAT(ids(findings_of(5, little)), ElementsAre("little-memory-left"));
  EXPECT_THAT(ids(findings_of(5,
                              [&](int i, SystemSample& sample) {
                                little(i, sample);
                                sample.swap_total = Bytes{};
                              })),
              ElementsAre("no-swap-no-reserve"));
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
  const auto with_used = [](Bytes used) {
    return findings_of(5, [used](int, SystemSample& sample) {
      GpuSample gpu = gpu_with(used, 1);
      gpu.name = "NVIDIA L4";
      gpu.processes = {{GpuProcess{11, mebibytes(300), {}, {}}, GpuProcess{12, gibibytes(22), {}, {}}}};
      sample.gpus = {gpu};
    });
  };
  EXPECT_THAT(ids(with_used(gibibytes(20))), IsEmpty());
  const Finding finding = only("gpu-memory-nearly-full", with_used(gibibytes(23)));
  EXPECT_EQ(finding.severity, Severity::note);
  EXPECT_EQ(finding.cures[0].command, "kill 12");
  EXPECT_EQ(finding.cures[0].saves, gibibytes(22));
}

// Memory that the driver reserves is neither used nor free.
TEST(MachineFindings, ReservedGpuMemoryIsNotFree) {
  const auto with = [](std::optional<Bytes> free, std::optional<Bytes> reserved) {
    return findings_of(5, [=](int, SystemSample& sample) {
      GpuSample gpu = gpu_with(gibibytes(24) - mebibytes(700));
      gpu.memory_free = free;
      gpu.memory_reserved = reserved;
      sample.gpus = {gpu};
    });
  };
  const auto expect_title = [](const std::vector<Finding>& findings, const char* title) {
    ASSERT_THAT(ids(findings), ElementsAre("gpu-memory-nearly-full"));
    EXPECT_EQ(findings[0].title, title);
  };
  expect_title(with(mebibytes(100), mebibytes(600)), "GPU 0 has 100.0 MiB of 24.00 GiB free");
  expect_title(with(mebibytes(90), std::nullopt), "GPU 0 has 90.0 MiB of 24.00 GiB free");
  expect_title(with(std::nullopt, mebibytes(500)), "GPU 0 has 200.0 MiB of 24.00 GiB free");
  expect_title(with(std::nullopt, std::nullopt), "GPU 0 has 700.0 MiB of 24.00 GiB free");
}

// The finding reports the worst moment of a GPU. The driver's reserved memory counts, too.
TEST(MachineFindings, FullestMomentOfGpuHasLeastFreeMemory) {
  const Finding finding = only("gpu-memory-nearly-full", findings_of(9, [](int i, SystemSample& sample) {
                                 GpuSample gpu =
                                     gpu_with(i == 4 ? gibibytes(22) : mebibytes(22 * 1024 + 400));
                                 gpu.memory_reserved = i == 4 ? mebibytes(1948) : mebibytes(100);
                                 sample.gpus = {gpu};
                               }));
  EXPECT_EQ(finding.title, "GPU 0 had 100.0 MiB of 24.00 GiB free");
}

TEST(MachineFindings, NamesFullestOfSeveralGpus) {
  const Finding finding =
      only("gpu-memory-nearly-full", findings_of(5, [](int, SystemSample& sample) {
             for (const int index : {0, 1, 2}) {
               sample.gpus.push_back(gpu_with(gibibytes(24) - mebibytes(index == 1 ? 50 : 400), index));
             }
           }));
  EXPECT_EQ(finding.title, "GPU 1 has 50.0 MiB of 24.00 GiB free, and 2 others hardly more");
}

TEST(MachineFindings, ReportsFragmentationAfterHalfAMinute) {
  const auto of = [](Nanoseconds in_pieces) {
    MachineHistory history;
    for (int i = 0; i < 60; ++i) history.add(sample_at(i));
    history.in_pieces = in_pieces;
    history.worst_factor = 8;
    return machine_findings(history, "watch.jsonl");
  };
  EXPECT_THAT(ids(of({29'000'000'000})), IsEmpty());
  const Finding finding = only("free-memory-in-pieces", of({30'000'000'000}));
  EXPECT_EQ(finding.severity, Severity::warning);
  EXPECT_THAT(finding.title, testing::HasSubstr("8.0 times smaller than before"));
}

// A full GPU in the middle of the log is reported, but no cure ends a process of that time.
TEST(MachineFindings, ReportsGpuThatWasFullEarlier) {
  const Finding finding = only("gpu-memory-nearly-full", findings_of(9, [](int i, SystemSample& sample) {
                                 GpuSample gpu = gpu_with(i == 4 ? mebibytes(24 * 1024 - 100) : gibibytes(2));
                                 gpu.processes = {{GpuProcess{12, gibibytes(22), {}, {}}}};
                                 sample.gpus = {gpu};
                               }));
  EXPECT_THAT(finding.title, testing::HasSubstr("had 100.0 MiB of 24.00 GiB free"));
  EXPECT_THAT(finding.evidence.at(0).text, testing::HasSubstr("4.000 s after the first"));
  EXPECT_EQ(finding.cures[0].command, "headroom top");
}

TEST(MachineFindings, ReportsControlGroupThatWasFullEarlier) {
  const Finding finding = only("control-group-nearly-full", findings_of(9, [](int i, SystemSample& sample) {
                                 sample.cgroup.emplace();
                                 sample.cgroup->limit = mebibytes(1000);
                                 sample.cgroup->current = sample.cgroup->anonymous =
                                     i == 4 ? mebibytes(990) : mebibytes(100);
                               }));
  EXPECT_THAT(finding.title, testing::HasSubstr("The control group held 990.0 MiB"));
}

// The full swap may use the usual file name.
TEST(MachineFindings, MoreSwapUsesAnotherFile) {
  const Finding finding = only("swap-nearly-full", findings_of(5, [](int, SystemSample& sample) {
                                 sample.ram_available = gibibytes(1);
                                 sample.swap_used = gibibytes(4);
                               }));
  EXPECT_THAT(finding.cures.at(1).command, testing::HasSubstr("swapon /swapfile.headroom"));
}

TEST(MachineFindings, CuresUseNumbersOfTheMachine) {
  const auto findings = findings_of(5, [](int, SystemSample& sample) {
    sample.nvmap_used = gibibytes(1);
    sample.ram_free = mebibytes(300);
    sample.swap_total = Bytes{};
    sample.ram_available = gibibytes(2);
    sample.cgroup = CgroupMemory{};
    sample.cgroup->limit = mebibytes(320);
    sample.cgroup->current = sample.cgroup->anonymous = mebibytes(300);
  });
  ASSERT_THAT(ids(findings), ElementsAre("page-cache-starves-nvmap", "control-group-nearly-full"));
  EXPECT_EQ(findings[0].cures[1].command, "sudo sysctl vm.min_free_kbytes=279620") << "a 30th of 8 GiB";
  EXPECT_EQ(findings[1].cures[0].command, "docker update --memory=401m --memory-swap=802m CONTAINER");
  const Finding low = only("no-swap-no-reserve", findings_of(5, [](int, SystemSample& sample) {
                             sample.swap_total = Bytes{};
                             *sample.ram_available = mebibytes(500);
                           }));
  EXPECT_THAT(low.cures[1].command, testing::StartsWith("sudo fallocate -l 4G ")) << "half of the memory";
}

// Swap was full while half of the memory was free; later little memory was left, and the swap was empty.
TEST(MachineFindings, ComparesSwapAndMemoryOfOneMoment) {
  const auto apart = [](int i, SystemSample& sample) {
    if (i == 3) sample.swap_used = gibibytes(4) - mebibytes(100);
    if (i == 7) sample.ram_available = mebibytes(1200);
  };
  EXPECT_THAT(ids(findings_of(9, apart)), IsEmpty());
  const Finding finding = only("swap-nearly-full", findings_of(9, [&](int i, SystemSample& sample) {
                                 apart(i, sample);
                                 if (i == 5) {
                                   sample.swap_used = gibibytes(4) - mebibytes(200);
                                   sample.ram_available = mebibytes(1500);
                                 }
                               }));
  EXPECT_EQ(finding.title,
            "3.80 GiB of 4.00 GiB of swap were in use, and 1.46 GiB of 8.00 GiB of memory were available");
  EXPECT_THAT(finding.evidence.at(0).text, HasSubstr("5.000 s after the first of 9 samples"));
}

// A missing figure is not zero, and the finding uses the moment with the least memory.
TEST(MachineFindings, ReportsMissingSwapOnlyIfKnown) {
  const auto at_lowest = [](std::optional<Bytes> swap) {
    return findings_of(5, [swap](int i, SystemSample& sample) {
      sample.swap_total = i == 2 ? swap : gibibytes(4);
      if (i == 2) sample.ram_available = sample.ram_free = mebibytes(400);
    });
  };
  const Finding unknown = only("little-memory-left", at_lowest(std::nullopt));
  EXPECT_THAT(unknown.title, Not(HasSubstr("swap")));
  EXPECT_THAT(unknown.cause, HasSubstr("if there is any"));
  EXPECT_THAT(ids(at_lowest(Bytes{})), ElementsAre("no-swap-no-reserve"));
  // The last sample has no swap; the lowest moment had some.
  EXPECT_THAT(ids(findings_of(5,
                              [](int i, SystemSample& sample) {
                                if (i == 2) sample.ram_available = sample.ram_free = mebibytes(400);
                                if (i == 4) sample.swap_total = Bytes{};
                              })),
              ElementsAre("little-memory-left"));
}

TEST(MachineFindings, ReportsHowLongPageCacheStarvedNvMap) {
  const Finding finding = only("page-cache-starves-nvmap", findings_of(9, [](int i, SystemSample& sample) {
                                 sample.nvmap_used = gibibytes(1);
                                 if (i >= 2 && i < 6) sample.ram_free = mebibytes(120);
                               }));
  EXPECT_EQ(number_figure(finding, "starved_seconds"), 4);
}

// The last sample may have no group or another one.
TEST(MachineFindings, ThrashingGroupKeepsItsLimit) {
  const Finding finding = only("control-group-thrash", findings_of(30, [](int i, SystemSample& sample) {
                                 if (i >= 20) return;
                                 sample.refaults = 470'000;
                                 sample.psi_some_stalled = Nanoseconds{80'000'000};
                                 sample.cgroup = CgroupMemory{};
                                 sample.cgroup->limit = mebibytes(128);
                                 sample.cgroup->current = mebibytes(127);
                                 sample.cgroup->anonymous = mebibytes(1);
                               }));
  EXPECT_EQ(finding.cures[0].command, "headroom run --limit 256MiB -- COMMAND");
}

}  // namespace
}  // namespace headroom::test
