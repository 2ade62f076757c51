// What samples of a machine tell; and that a healthy one tells nothing.
#include "doctor/machine/machine_findings.h"

#include <algorithm>

#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::MachineHistory;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A board of 8 GiB with swap, half of it used.
SystemSample sample_at(int second) {
  SystemSample sample;
  sample.time = {second * std::int64_t{1'000'000'000}};
  sample.ram_total = gibibytes(8);
  sample.ram_available = gibibytes(4);
  sample.ram_free = gibibytes(2);
  sample.swap_total = gibibytes(4);
  sample.swap_used = Bytes{};
  sample.psi_full_stalled = Nanoseconds{};
  sample.psi_some_stalled = Nanoseconds{};
  sample.refaults = 0;
  sample.pages_swapped_in = 0;
  return sample;
}

std::vector<Finding> findings_of(int seconds, const std::function<void(int, SystemSample&)>& change) {
  MachineHistory history;
  for (int i = 0; i < seconds; ++i) {
    SystemSample sample = sample_at(i);
    change(i, sample);
    history.add(sample);
  }
  return machine_findings(history, "watch.jsonl");
}

// Sessions one behind the other, each with its times from 0 on.
std::vector<Finding> findings_of_sessions(
    const std::vector<std::pair<int, std::function<void(int, SystemSample&)>>>& sessions) {
  MachineHistory history;
  for (const auto& [seconds, change] : sessions)
    for (int i = 0; i < seconds; ++i) {
      SystemSample sample = sample_at(i);
      change(i, sample);
      history.add(sample);
    }
  return machine_findings(history, "watch.jsonl");
}

std::optional<double> figure(const Finding& finding, std::string_view name) {
  for (const Figure& each : finding.figures) {
    if (each.name != name) continue;
    if (const auto* whole = std::get_if<std::int64_t>(&each.value)) return static_cast<double>(*whole);
    return std::get<double>(each.value);
  }
  return std::nullopt;
}

ProcessSample process(std::int64_t pid, const char* name, Bytes rss) {
  ProcessSample sample;
  sample.pid = pid;
  sample.name = name;
  sample.rss = rss;
  return sample;
}

std::vector<std::string> ids(const std::vector<Finding>& findings) {
  std::vector<std::string> names;
  for (const Finding& finding : findings) names.push_back(finding.id);
  return names;
}

TEST(MachineFindings, AHealthyMachineTellsNothing) {
  EXPECT_THAT(ids(findings_of(300, [](int, SystemSample&) {})), IsEmpty());
  EXPECT_THAT(ids(findings_of(1, [](int, SystemSample&) {})), IsEmpty());
  EXPECT_THAT(ids(findings_of(0, [](int, SystemSample&) {})), IsEmpty());
  // Memory that goes up and down.
  EXPECT_THAT(
      ids(findings_of(
          300, [](int i, SystemSample& sample) { *sample.ram_available += mebibytes(i * 7919 % 300); })),
      IsEmpty());
}

// A log may hold several machines: what was least is told beside its own machine's total, and with its
// moment.
TEST(MachineFindings, TheWorstMomentKeepsItsOwnTotal) {
  const auto findings = findings_of(40, [](int i, SystemSample& sample) {
    sample.ram_total = i < 20 ? gibibytes(4) : gibibytes(64);
    sample.swap_total = gibibytes(2);
    sample.ram_available = i == 12 ? mebibytes(100) : i < 20 ? gibibytes(2) : gibibytes(40);
  });
  ASSERT_THAT(ids(findings), ElementsAre("little-memory-left"));
  EXPECT_THAT(findings[0].title, testing::HasSubstr("100.0 MiB of 4.00 GiB"));
  EXPECT_THAT(findings[0].evidence[0].text, testing::HasSubstr("12.000 s after the first of 40 samples"));
}

TEST(MachineFindings, SteadyGrowthWithoutAnEndInSightIsAWarning) {
  const auto findings = findings_of(300, [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * i);
  });
  ASSERT_THAT(ids(findings), ElementsAre("memory-grows"));
  EXPECT_EQ(findings[0].severity, Severity::warning);
}

TEST(MachineFindings, SteadyGrowthRunsOutAndIsSomebodys) {
  const auto findings = findings_of(300, [](int i, SystemSample& sample) {
    sample.swap_total = Bytes{};
    *sample.ram_available = *sample.ram_available - mebibytes(8 * i);
    sample.processes = {process(11, "calm", gibibytes(1)), process(10, "leaky", mebibytes(100 + 8 * i))};
  });
  ASSERT_THAT(ids(findings), ElementsAre("memory-running-out"));
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_EQ(findings[0].cures[0].saves, mebibytes(8 * 299));
  EXPECT_THAT(findings[0].title, testing::HasSubstr("most of it is leaky's"));
  const auto level = std::find_if(findings[0].figures.begin(), findings[0].figures.end(),
                                  [](const Figure& figure) { return figure.name == "level"; });
  ASSERT_NE(level, findings[0].figures.end());
  EXPECT_EQ(std::get<std::string>(level->value), "process");
  EXPECT_THAT(findings[0].cures[0].what, testing::HasSubstr("leaky"));
  EXPECT_EQ(findings[0].evidence[0].file, "watch.jsonl");
}

TEST(MachineFindings, GrowthThatLevelsOffIsNoLeak) {
  const auto findings = findings_of(600, [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(8 * std::min(i, 100));
  });
  ASSERT_LE(findings.size(), 1U);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.id, "growth-levelled-off");
    EXPECT_EQ(finding.severity, Severity::note);
  }
}

TEST(MachineFindings, ThrashIsRefaultsWhileTasksWait) {
  const auto thrash = [](int, SystemSample& sample) {
    sample.refaults = 80'000;
    sample.psi_full_stalled = Nanoseconds{500'000'000};
    sample.psi_some_stalled = Nanoseconds{700'000'000};
    sample.psi_full_avg10 = 50;
    sample.psi_some_avg10 = 70;
  };
  ASSERT_THAT(ids(findings_of(30, thrash)), ElementsAre("swap-thrash"));
  // Reading many files is no thrashing.
  EXPECT_THAT(ids(findings_of(30, [](int, SystemSample& sample) { sample.refaults = 80'000; })), IsEmpty());
}

// As measured of a program that reads 192 MiB of mapped weights in a group of 128 MiB, on a fast disk.
TEST(MachineFindings, AGroupAtItsLimitThrashesThoughTheMachineDoesNot) {
  const auto thrash = [](int, SystemSample& sample) {
    sample.refaults = 470'000;
    sample.psi_some_stalled = Nanoseconds{80'000'000};
    sample.psi_some_avg10 = 7.5;
    sample.cgroup = CgroupMemory{};
    sample.cgroup->limit = mebibytes(128);
    sample.cgroup->current = mebibytes(127);
    sample.cgroup->anonymous = mebibytes(1);
  };
  const auto findings = findings_of(30, thrash);
  ASSERT_THAT(ids(findings), ElementsAre("control-group-thrash"));
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_EQ(std::get<std::string>(findings[0].figures[0].value), "control group");
  EXPECT_EQ(findings[0].cures[0].command, "headroom run --limit 256MiB -- COMMAND");
  // A dataset that is read round and round, at the pace of a slow disk.
  const auto slowly = findings_of(30, [&](int i, SystemSample& sample) {
    thrash(i, sample);
    sample.refaults = 9'000;
  });
  ASSERT_EQ(slowly.size(), 1U);
  EXPECT_EQ(slowly[0].severity, Severity::warning);
  // With room in the group it is somebody else's reading; without waiting the cache at work.
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

TEST(MachineFindings, SwapAndZramThatDoNotFit) {
  const auto full = findings_of(5, [](int, SystemSample& sample) {
    sample.ram_available = sample.ram_free = mebibytes(1200);
    sample.swap_used = gibibytes(4) - mebibytes(100);
  });
  ASSERT_THAT(ids(full), ElementsAre("swap-nearly-full"));
  EXPECT_THAT(ids(findings_of(5, [](int, SystemSample& sample) { sample.swap_used = gibibytes(4); })),
              IsEmpty())
      << "what is idle, and half of the memory is available";
  const auto large = findings_of(5, [](int, SystemSample& sample) {
    sample.zram_original = gibibytes(6);
    sample.zram_used = gibibytes(2) + mebibytes(100);
  });
  ASSERT_THAT(ids(large), ElementsAre("zram-takes-much"));
  EXPECT_EQ(large[0].cures[0].saves, gibibytes(2) + mebibytes(100));
}

TEST(MachineFindings, WhatNobodyHoldsIsToldAndHugePagesAndZramAreSomebodys) {
  const auto hidden = [](int, SystemSample& sample) {
    sample.ram_buffers = mebibytes(100);
    sample.ram_cached = gibibytes(2);
    sample.ram_anonymous = gibibytes(1);
    sample.slab_reclaimable = sample.slab_unreclaimable = mebibytes(100);
    sample.page_tables = mebibytes(20);
  };
  const auto findings = findings_of(5, hidden);
  ASSERT_THAT(ids(findings), ElementsAre("memory-of-no-process"));
  EXPECT_EQ(findings[0].severity, Severity::note);
  EXPECT_EQ(std::get<std::int64_t>(findings[0].figures[0].value), (gibibytes(3) - mebibytes(320)).count);
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

TEST(MachineFindings, ThePageCacheStarvesNvMapOnlyWhereThatIs) {
  const auto starve = [](int, SystemSample& sample) { sample.ram_free = mebibytes(120); };
  EXPECT_THAT(ids(findings_of(5, starve)), IsEmpty());
  const auto findings = findings_of(5, [&](int i, SystemSample& sample) {
    starve(i, sample);
    sample.nvmap_used = gibibytes(1);
  });
  ASSERT_THAT(ids(findings), ElementsAre("page-cache-starves-nvmap"));
  EXPECT_EQ(findings[0].cures[0].saves, gibibytes(4) - mebibytes(120));
}

TEST(MachineFindings, LittleLeftWithAndWithoutSwap) {
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

TEST(MachineFindings, KillsGroupsZramDesktopAndHeat) {
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

// The machine's counter has what other groups lost, too.
TEST(MachineFindings, AKillInAnotherGroupIsAWarning) {
  for (const std::int64_t own : {0, 1}) {
    const auto findings = findings_of(5, [own](int i, SystemSample& sample) {
      if (i == 3) sample.oom_kills = 1;
      sample.cgroup = CgroupMemory{};
      sample.cgroup->limit = mebibytes(100);
      sample.cgroup->oom_kills = 4 + (i >= 3 ? own : 0);
    });
    ASSERT_THAT(ids(findings), ElementsAre("kernel-oom-kill"));
    EXPECT_EQ(findings[0].severity, own == 0 ? Severity::warning : Severity::severe);
  }
}

TEST(MachineFindings, AGpuThatIsFullIsNamedWithWhoHoldsMost) {
  const auto with_used = [](Bytes used) {
    return findings_of(5, [used](int, SystemSample& sample) {
      GpuSample gpu;
      gpu.index = 1;
      gpu.name = "NVIDIA L4";
      gpu.memory_total = gibibytes(24);
      gpu.memory_used = used;
      gpu.processes = {{GpuProcess{11, mebibytes(300), {}, {}}, GpuProcess{12, gibibytes(22), {}, {}}}};
      sample.gpus = {gpu};
    });
  };
  EXPECT_THAT(ids(with_used(gibibytes(20))), IsEmpty());
  const auto findings = with_used(gibibytes(23));
  ASSERT_THAT(ids(findings), ElementsAre("gpu-memory-nearly-full"));
  EXPECT_EQ(findings[0].severity, Severity::note);
  EXPECT_EQ(findings[0].cures[0].command, "kill 12");
  EXPECT_EQ(findings[0].cures[0].saves, gibibytes(22));
}

// The driver's own part is neither used nor free.
TEST(MachineFindings, ReservedMemoryOfAGpuIsNotFree) {
  const auto with = [](std::optional<Bytes> free, std::optional<Bytes> reserved) {
    return findings_of(5, [=](int, SystemSample& sample) {
      GpuSample gpu;
      gpu.index = 0;
      gpu.memory_total = gibibytes(24);
      gpu.memory_used = gibibytes(24) - mebibytes(700);
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

// Of the moments of a GPU the worst is told, and the driver may take memory for itself, too.
TEST(MachineFindings, TheFullestMomentOfAGpuIsThatWithTheLeastFree) {
  const auto findings = findings_of(9, [](int i, SystemSample& sample) {
    GpuSample gpu;
    gpu.index = 0;
    gpu.memory_total = gibibytes(24);
    gpu.memory_used = i == 4 ? gibibytes(22) : mebibytes(22 * 1024 + 400);
    gpu.memory_reserved = i == 4 ? mebibytes(1948) : mebibytes(100);
    sample.gpus = {gpu};
  });
  ASSERT_THAT(ids(findings), ElementsAre("gpu-memory-nearly-full"));
  EXPECT_EQ(findings[0].title, "GPU 0 had 100.0 MiB of 24.00 GiB free");
}

TEST(MachineFindings, OfSeveralFullGpusTheFullestIsNamed) {
  const auto findings = findings_of(5, [](int, SystemSample& sample) {
    for (const int index : {0, 1, 2}) {
      GpuSample gpu;
      gpu.index = index;
      gpu.memory_total = gibibytes(24);
      gpu.memory_used = *gpu.memory_total - mebibytes(index == 1 ? 50 : 400);
      sample.gpus.push_back(gpu);
    }
  });
  ASSERT_THAT(ids(findings), ElementsAre("gpu-memory-nearly-full"));
  EXPECT_EQ(findings[0].title, "GPU 1 has 50.0 MiB of 24.00 GiB free, and 2 others hardly more");
}

TEST(MachineFindings, FreeMemoryInPiecesForHalfAMinute) {
  const auto of = [](Nanoseconds in_pieces) {
    MachineHistory history;
    for (int i = 0; i < 60; ++i) history.add(sample_at(i));
    history.in_pieces = in_pieces;
    history.worst_factor = 8;
    return machine_findings(history, "watch.jsonl");
  };
  EXPECT_THAT(ids(of({29'000'000'000})), IsEmpty());
  const auto findings = of({30'000'000'000});
  ASSERT_THAT(ids(findings), ElementsAre("free-memory-in-pieces"));
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_THAT(findings[0].title, testing::HasSubstr("8.0 times smaller than before"));
}

// What was there in the middle of the log is told, and no process of then is to be ended now.
TEST(MachineFindings, AGpuThatWasFullIsTold) {
  const auto findings = findings_of(9, [](int i, SystemSample& sample) {
    GpuSample gpu;
    gpu.index = 0;
    gpu.memory_total = gibibytes(24);
    gpu.memory_used = i == 4 ? mebibytes(24 * 1024 - 100) : gibibytes(2);
    gpu.processes = {{GpuProcess{12, gibibytes(22), {}, {}}}};
    sample.gpus = {gpu};
  });
  ASSERT_THAT(ids(findings), ElementsAre("gpu-memory-nearly-full"));
  EXPECT_THAT(findings[0].title, testing::HasSubstr("had 100.0 MiB of 24.00 GiB free"));
  EXPECT_THAT(findings[0].evidence.at(0).text, testing::HasSubstr("4.000 s after the first"));
  EXPECT_EQ(findings[0].cures[0].command, "headroom top");
}

TEST(MachineFindings, AControlGroupThatWasFullIsTold) {
  const auto findings = findings_of(9, [](int i, SystemSample& sample) {
    sample.cgroup.emplace();
    sample.cgroup->limit = mebibytes(1000);
    sample.cgroup->current = sample.cgroup->anonymous = i == 4 ? mebibytes(990) : mebibytes(100);
  });
  ASSERT_THAT(ids(findings), ElementsAre("control-group-nearly-full"));
  EXPECT_THAT(findings[0].title, testing::HasSubstr("The control group held 990.0 MiB"));
}

// A process grew until it was killed: nothing goes on.
TEST(MachineFindings, GrowthThatEndedIsNoForecast) {
  const auto with_end = [](int seconds) {
    return findings_of(seconds, [](int i, SystemSample& sample) {
      sample.swap_total = gibibytes(4);
      sample.ram_available = i < 290 ? gibibytes(6) - mebibytes(18 * i) : gibibytes(6);
    });
  };
  EXPECT_THAT(ids(with_end(290)), testing::Contains("memory-running-out"));
  EXPECT_THAT(ids(with_end(310)), testing::Not(testing::Contains("memory-running-out")));
  EXPECT_THAT(ids(with_end(310)), testing::Not(testing::Contains("memory-grows")));
}

// The file of the swap that is full may be the usual one.
TEST(MachineFindings, MoreSwapIsAnotherFile) {
  const auto findings = findings_of(5, [](int, SystemSample& sample) {
    sample.ram_available = gibibytes(1);
    sample.swap_used = gibibytes(4);
  });
  ASSERT_THAT(ids(findings), ElementsAre("swap-nearly-full"));
  EXPECT_THAT(findings[0].cures.at(1).command, testing::HasSubstr("swapon /swapfile.headroom"));
}

TEST(MachineFindings, NumbersInCuresAreOfTheMachine) {
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
  const auto low = findings_of(5, [](int, SystemSample& sample) {
    sample.swap_total = Bytes{};
    *sample.ram_available = mebibytes(500);
  });
  ASSERT_THAT(ids(low), ElementsAre("no-swap-no-reserve"));
  EXPECT_THAT(low[0].cures[1].command, testing::StartsWith("sudo fallocate -l 4G ")) << "half of the memory";
}

// cat a.jsonl b.jsonl: what happened in the second session happened, and what passed between both is told by
// the wall clock.
TEST(MachineFindings, ASessionBehindAnotherIsReadToo) {
  const auto calm = [](int, SystemSample&) {};
  const auto killed = [](int i, SystemSample& sample) { sample.oom_kills = i == 5 ? 2 : 0; };
  auto findings = findings_of_sessions({{60, calm}, {40, killed}});
  ASSERT_THAT(ids(findings), ElementsAre("kernel-oom-kill"));
  EXPECT_EQ(findings[0].times, 2);
  EXPECT_EQ(findings[0].evidence.at(0).text, "100 samples over 1 min 38 s in 2 sessions");
  EXPECT_THAT(ids(findings_of_sessions({{60, killed}, {40, calm}})), ElementsAre("kernel-oom-kill"));
  const auto by_clock = [&](std::int64_t begin) {
    return [&, begin](int i, SystemSample& sample) {
      killed(i, sample);
      sample.unix_time = Nanoseconds{(begin + i) * 1'000'000'000};
    };
  };
  findings = findings_of_sessions({{60, by_clock(1'700'000'000)}, {40, by_clock(1'700'001'000)}});
  EXPECT_EQ(findings.at(0).evidence.at(0).text, "100 samples over 17 min 19 s in 2 sessions");
  EXPECT_EQ(findings[0].times, 4);
  // Set back in between: nothing is known of what passed.
  findings = findings_of_sessions({{60, by_clock(1'700'000'000)}, {40, by_clock(1'600'000'000)}});
  EXPECT_EQ(findings.at(0).evidence.at(0).text, "100 samples over 1 min 38 s in 2 sessions");
}

// Logs of one sample each: all are at 0, and only the wall clock tells them from one moment.
TEST(MachineFindings, SessionsOfOneSampleAreSessions) {
  const auto at = [](std::int64_t begin) {
    return [begin](int, SystemSample& sample) {
      sample.unix_time = Nanoseconds{begin * 1'000'000'000};
      sample.oom_kills = 1;
    };
  };
  const auto findings = findings_of_sessions({{1, at(1'700'000'000)}, {1, at(1'700'000'060)}});
  ASSERT_THAT(ids(findings), ElementsAre("kernel-oom-kill"));
  EXPECT_EQ(findings[0].evidence.at(0).text, "2 samples over 1 min 00 s in 2 sessions");
  // Of one moment both count, too, as of tegrastats with ten lines a second.
  const auto same = findings_of_sessions({{1, at(1'700'000'000)}, {1, at(1'700'000'000)}});
  EXPECT_EQ(same.at(0).times, 2);
  EXPECT_EQ(same[0].evidence.at(0).text, "2 samples");
}

TEST(MachineFindings, ALeakOfAnEarlierSessionIsTold) {
  const auto leak = [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * i);
    sample.processes = {process(10, "leaky", mebibytes(100 + 2 * i))};
  };
  const auto calm = [](int, SystemSample& sample) {
    sample.processes = {process(10, "leaky", mebibytes(100))};
  };
  auto findings = findings_of_sessions({{300, leak}, {100, calm}});
  ASSERT_THAT(ids(findings), ElementsAre("memory-grows"));
  EXPECT_THAT(findings[0].title,
              AllOf(HasSubstr("Memory grew steadily"), HasSubstr("most of it is leaky's")));
  EXPECT_EQ(findings[0].evidence.at(0).text, "300 samples of session 1 of 2");
  findings = findings_of_sessions({{100, calm}, {300, leak}});
  ASSERT_THAT(ids(findings), ElementsAre("memory-grows"));
  EXPECT_THAT(findings[0].title, HasSubstr("Memory grows steadily"));
  // The worse of two.
  const auto runs_out = [&](int i, SystemSample& sample) {
    leak(i, sample);
    sample.swap_total = Bytes{};
    *sample.ram_available = *sample.ram_available - mebibytes(8 * i);
  };
  findings = findings_of_sessions({{300, runs_out}, {300, leak}});
  ASSERT_THAT(ids(findings), testing::Contains("memory-running-out"));
  EXPECT_THAT(findings[0].title, HasSubstr("after the end of a session"));
}

// Of another day, another boot, or another machine: what lies between two sessions is no growth, and what a
// counter had before is no kill.
TEST(MachineFindings, NothingIsTakenAcrossSessions) {
  const auto with = [](Bytes taken, std::int64_t group_kills) {
    return [=](int i, SystemSample& sample) {
      sample.ram_available = gibibytes(8) - taken;
      sample.processes = {process(10, "python3", taken)};
      sample.cgroup = CgroupMemory{};
      sample.cgroup->limit = gibibytes(8);
      sample.cgroup->oom_kills = group_kills;
      sample.oom_kills = i == 3 ? 1 : 0;
    };
  };
  std::vector<std::pair<int, std::function<void(int, SystemSample&)>>> sessions;
  for (int i = 0; i < 6; ++i) sessions.emplace_back(120, with(gibibytes(1) + mebibytes(700 * i), 3 * i));
  const auto findings = findings_of_sessions(sessions);
  ASSERT_THAT(ids(findings), ElementsAre("kernel-oom-kill"));
  EXPECT_EQ(findings[0].severity, Severity::warning) << "none of the group";
  EXPECT_EQ(figure(findings[0], "group_oom_kills"), 0);
  // In a session without a group it may have been one's own.
  sessions.insert(sessions.begin(), {10, [](int i, SystemSample& sample) { sample.oom_kills = i == 3; }});
  EXPECT_EQ(findings_of_sessions(sessions).at(0).severity, Severity::severe);
}

TEST(MachineFindings, OfManySessionsTheWorstStay) {
  std::vector<std::pair<int, std::function<void(int, SystemSample&)>>> sessions;
  for (int number = 0; number < 40; ++number)
    sessions.emplace_back(90, [number](int i, SystemSample& sample) {
      if (number == 3) *sample.ram_available = *sample.ram_available - mebibytes(4 * i);
    });
  const auto findings = findings_of_sessions(sessions);
  ASSERT_THAT(ids(findings), testing::Contains(testing::AnyOf("memory-grows", "memory-running-out")));
  EXPECT_EQ(findings[0].evidence.at(0).text, "90 samples of session 4 of 40");
}

// Swap was full while half of the memory was free; later little memory was left, and the swap was empty.
TEST(MachineFindings, SwapAndMemoryAreOfOneMoment) {
  const auto apart = [](int i, SystemSample& sample) {
    if (i == 3) sample.swap_used = gibibytes(4) - mebibytes(100);
    if (i == 7) sample.ram_available = mebibytes(1200);
  };
  EXPECT_THAT(ids(findings_of(9, apart)), IsEmpty());
  const auto findings = findings_of(9, [&](int i, SystemSample& sample) {
    apart(i, sample);
    if (i == 5) {
      sample.swap_used = gibibytes(4) - mebibytes(200);
      sample.ram_available = mebibytes(1500);
    }
  });
  ASSERT_THAT(ids(findings), ElementsAre("swap-nearly-full"));
  EXPECT_EQ(findings[0].title,
            "3.80 GiB of 4.00 GiB of swap were used, and 1.46 GiB of 8.00 GiB of memory were "
            "available");
  EXPECT_THAT(findings[0].evidence.at(0).text, HasSubstr("5.000 s after the first of 9 samples"));
}

// Absent is not zero, and what is told is of the lowest moment.
TEST(MachineFindings, NoSwapIsToldWhereItIsKnown) {
  const auto at_lowest = [](std::optional<Bytes> swap) {
    return findings_of(5, [swap](int i, SystemSample& sample) {
      sample.swap_total = i == 2 ? swap : gibibytes(4);
      if (i == 2) sample.ram_available = sample.ram_free = mebibytes(400);
    });
  };
  const auto unknown = at_lowest(std::nullopt);
  ASSERT_THAT(ids(unknown), ElementsAre("little-memory-left"));
  EXPECT_THAT(unknown[0].title, Not(HasSubstr("swap")));
  EXPECT_THAT(unknown[0].cause, HasSubstr("if there is some"));
  EXPECT_THAT(ids(at_lowest(Bytes{})), ElementsAre("no-swap-no-reserve"));
  // The last sample has none; the lowest had some.
  EXPECT_THAT(ids(findings_of(5,
                              [](int i, SystemSample& sample) {
                                if (i == 2) sample.ram_available = sample.ram_free = mebibytes(400);
                                if (i == 4) sample.swap_total = Bytes{};
                              })),
              ElementsAre("little-memory-left"));
}

std::string fastest_process(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings)
    for (const Figure& each : finding.figures)
      if (each.name == "fastest_process") return std::get<std::string>(each.value);
  return {};
}

TEST(MachineFindings, ALeakBehindManyShortProcessesIsFound) {
  const auto findings = findings_of(300, [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * std::max(0, i - 100));
    for (int child = 0; child < 10; ++child)
      sample.processes.push_back(process(1000 + 10 * i + child, "cc1plus", mebibytes(50)));
    if (i >= 100) sample.processes.push_back(process(10, "leaky", mebibytes(2 * i)));
  });
  EXPECT_EQ(fastest_process(findings), "leaky");
}

// The one that grew most may have ended, or be no longer among the largest.
TEST(MachineFindings, TheProcessThatGrewMostIsKeptWhenItEnds) {
  const auto findings = findings_of(300, [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * i);
    if (i < 100) sample.processes.push_back(process(10, "leaky", mebibytes(2 * i)));
    for (int child = 0; child < 10; ++child)
      sample.processes.push_back(process(1000 + 10 * i + child, "cc1plus", mebibytes(50)));
  });
  EXPECT_EQ(fastest_process(findings), "leaky");
}

TEST(MachineFindings, AReusedNumberIsAnotherProcess) {
  const auto grow = [](int i, SystemSample& sample) {
    *sample.ram_available = *sample.ram_available - mebibytes(2 * i);
    sample.processes = {process(11, "leaky", mebibytes(100 + i))};
  };
  const auto by_name = findings_of(300, [&](int i, SystemSample& sample) {
    grow(i, sample);
    sample.processes.push_back(i < 150 ? process(10, "sh", mebibytes(1))
                                       : process(10, "server", gibibytes(2)));
  });
  EXPECT_EQ(fastest_process(by_name), "leaky");
  const auto by_start = findings_of(300, [&](int i, SystemSample& sample) {
    grow(i, sample);
    sample.processes.push_back(process(10, "python3", i < 150 ? mebibytes(1) : gibibytes(2)));
    sample.processes.back().start_ticks = i < 150 ? 100 : 90'000;
  });
  EXPECT_EQ(fastest_process(by_start), "leaky");
}

TEST(MachineFindings, HowLongThePageCacheStarvedNvMapIsTold) {
  const auto findings = findings_of(9, [](int i, SystemSample& sample) {
    sample.nvmap_used = gibibytes(1);
    if (i >= 2 && i < 6) sample.ram_free = mebibytes(120);
  });
  ASSERT_THAT(ids(findings), ElementsAre("page-cache-starves-nvmap"));
  EXPECT_EQ(figure(findings[0], "starved_seconds"), 4);
}

// The last sample may be of no group, or of another.
TEST(MachineFindings, TheGroupThatThrashedKeepsItsLimit) {
  const auto findings = findings_of(30, [](int i, SystemSample& sample) {
    if (i >= 20) return;
    sample.refaults = 470'000;
    sample.psi_some_stalled = Nanoseconds{80'000'000};
    sample.cgroup = CgroupMemory{};
    sample.cgroup->limit = mebibytes(128);
    sample.cgroup->current = mebibytes(127);
    sample.cgroup->anonymous = mebibytes(1);
  });
  ASSERT_THAT(ids(findings), ElementsAre("control-group-thrash"));
  EXPECT_EQ(findings[0].cures[0].command, "headroom run --limit 256MiB -- COMMAND");
}

}  // namespace
}  // namespace headroom::test
