// Kills: which program reported them, which memory was exhausted, and commands that work.
#include <fmt/format.h>

#include "doctor/log/announced_kills.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_report.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::AnnouncedKills;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string summary(const std::string& group, const std::string& task, int pid) {
  return fmt::format(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/"
      ",mems_allowed=0,oom_memcg={0},task_memcg={0},task={1},pid={2},uid=0",
      group, task, pid);
}

std::string sizes(const std::string& task, int pid, int total_kib, int anonymous_kib) {
  return fmt::format(
      "Memory cgroup out of memory: Killed process {} ({}) total-vm:{}kB, anon-rss:{}kB, file-rss:5676kB, "
      "shmem-rss:0kB, UID:0 pgtables:184kB oom_score_adj:0",
      pid, task, total_kib, anonymous_kib);
}

// The report of a 6.18 kernel with control groups of version 1.
Lines group_report(const std::string& group, const std::string& task, int pid, int total_kib = 80456) {
  return {task + " invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
          "memory: usage 61440kB, limit 61440kB, failcnt 0",
          "memory+swap: usage 61440kB, limit 61440kB, failcnt 0",
          "kmem: usage 336kB, limit 9007199254740988kB, failcnt 0",
          "Memory cgroup stats for " + group + ":",
          "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents "
          "oom_score_adj name",
          fmt::format("[  {0}]     0 {0}    20114    16715    15296     1419         0   188416        0     "
                      "        0 {1}",
                      pid, task),
          summary(group, task, pid),
          sizes(task, pid, total_kib, 61184)};
}

const std::string kProbe = "/process_api/8ec97c/headroom-24586-2-probe-malloc_touch";
const std::string kOtherProbe = "/process_api/8ec97c/headroom-24586-8-probe-fork";

// `headroom bench --mem-limit 256MiB` leaves seven of these reports, which are harmless.
TEST(LogKills, LimitProbesOfHeadroomAreBenign) {
  const auto findings =
      findings_of(group_report(kProbe, "headroom", 24587) + group_report(kOtherProbe, "headroom", 24595));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "limit-probe-kill");
  EXPECT_EQ(findings[0].severity, Severity::benign);
  EXPECT_EQ(findings[0].times, 2);
  // The reaper's line belongs to the kill. A truncated report is benign, too.
  EXPECT_EQ(findings_of(group_report(kProbe, "headroom", 7) +
                        Lines{"oom_reaper: reaped process 7 (headroom), now anon-rss:0kB, file-rss:0kB"})
                .size(),
            1U);
  Lines cut = group_report(kProbe, "headroom", 24587);
  cut.resize(5);
  EXPECT_EQ(findings_of(cut).at(0).severity, Severity::benign);
  // Up to kernel 5.2 the report names the group, and a kill has two lines.
  const auto old =
      findings_of({"headroom invoked oom-killer: gfp_mask=0x0",
                   "Task in " + kProbe + " killed as a result of limit of " + kProbe,
                   "Memory cgroup out of memory: Kill process 8 (headroom) score 1000 or sacrifice child",
                   "Killed process 8 (headroom) total-vm:80456kB, anon-rss:61184kB, file-rss:0kB"});
  ASSERT_EQ(old.size(), 1U);
  EXPECT_EQ(old[0].severity, Severity::benign);
  EXPECT_EQ(old[0].times, 1);
}

TEST(LogKills, LimitProbeDoesNotHideOtherKill) {
  // A model's process may be as small as a probe, but its group is known.
  const auto own = findings_of(group_report("/a/headroom-24464-2-yolo", "headroom", 24467));
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(own[0].id, "cgroup-oom-kill");
  EXPECT_EQ(own[0].severity, Severity::severe);
  // The following line of systemd is about another kill.
  const auto findings =
      findings_of(group_report(kProbe, "headroom", 24587) +
                  Lines{"systemd[1]: detector.service: Failed with result 'oom-kill'.",
                        summary("/docker/a", "python3", 77), sizes("python3", 77, 9838380, 507812)});
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].id, "process-killed-for-memory");
  EXPECT_EQ(findings[1].id, "cgroup-oom-kill");
  EXPECT_EQ(figure(findings[1], "limit_bytes"), -1) << "the trial's";
  EXPECT_EQ(findings[2].id, "limit-probe-kill");
}

TEST(LogKills, RaisesHeadroomLimitByItsOwnFlag) {
  const auto command = [](const std::string& label) {
    return findings_of(group_report("/a/headroom-2236-3-" + label, "python3", 77)).at(0).cures.at(1).command;
  };
  EXPECT_EQ(command("run"), "headroom run --limit 75MiB -- COMMAND");
  EXPECT_EQ(command("yolo"), "headroom bench --model NAME=MODEL --source DIR --mem-limit 75MiB");
  EXPECT_EQ(doctor::label_of_own_group("/a/headroom-2236-8-probe-fork"), "probe-fork");
  EXPECT_EQ(doctor::label_of_own_group("/a/headroom-exporter-1"), "");
  EXPECT_EQ(doctor::label_of_own_group("/a/headroom-1"), "");
}

// JetPack 4 and 5.
TEST(LogKills, UsesFilesOfCgroupVersion1) {
  Lines version_1 = group_report("/robot/vision", "python3", 77);
  version_1[2] = "memory+swap: usage 61440kB, limit 9007199254740988kB, failcnt 0";
  EXPECT_EQ(findings_of(version_1).at(0).cures.at(1).command,
            "echo 75M | sudo tee /sys/fs/cgroup/memory/robot/vision/memory.limit_in_bytes");
  Lines version_2 = group_report("/robot/vision", "python3", 77);
  version_2[2] = "swap: usage 0kB, limit 9007199254740988kB, failcnt 0";
  EXPECT_EQ(findings_of(version_2).at(0).cures.at(1).command,
            "echo 75M | sudo tee /sys/fs/cgroup/robot/vision/memory.max");
}

// The report of a control group has no line of free blocks. Pages of arm64 kernels may also have 16 or 64
// KiB.
TEST(LogKills, ComputesPageSizeFromVictim) {
  const auto report = [](int total_kib, const std::string& before = "anything") {
    return findings_of({"python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
                        before, "memory: usage 614400kB, limit 614400kB, failcnt 12",
                        "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
                        "[   4312]     0  4312    20000     8000   188416     2048             0 python3",
                        "[   4400]     0  4400     1000      400    18841        0             0 helper",
                        summary("/robot/vision", "python3", 4312),
                        fmt::format("Memory cgroup out of memory: Killed process 4312 (python3) "
                                    "total-vm:{}kB, anon-rss:512000kB, file-rss:5676kB, shmem-rss:0kB",
                                    total_kib)})
        .at(0);
  };
  for (const int kib : {4, 16, 64}) {
    const std::int64_t page = kib * 1024;
    const Finding finding = report(20'000 * kib);
    EXPECT_EQ(figure(finding, "processes_rss_bytes"), 8400 * page) << kib;
    EXPECT_EQ(figure(finding, "largest_process_bytes"), 8000 * page) << kib;
    EXPECT_EQ(figure(finding, "victim_swap_bytes"), 2048 * page) << kib;
    EXPECT_EQ(finding.cause.find("more in swap") != std::string::npos, kib == 64) << "of 128 MiB";
  }
  // Another thread mapped memory between the two lines.
  EXPECT_EQ(figure(report(20'000 * 16 + 4096), "processes_rss_bytes"), 8400 * 16 * 1024);
  // None of the three page sizes fits: 4 KiB is assumed.
  for (const int total_kib : {20'000 * 8, 20'000 * 256, 20'000, 0})
    EXPECT_EQ(figure(report(total_kib), "processes_rss_bytes"), 8400 * 4096) << total_kib;
  // The line of free blocks is more reliable.
  EXPECT_EQ(figure(report(20'000 * 64, "Node 0 Normal: 142*16kB (UEC) 161*32kB (U) = 7424kB"),
                   "processes_rss_bytes"),
            8400 * 16 * 1024);
}

// Only the rows with most swap are kept.
TEST(LogKills, KeepsVictimAmongManyProcessesInSwap) {
  Lines lines{"python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
              "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"};
  const auto row = [](int pid, int swapped) {
    return fmt::format("[{:7}]     0 {}    90000     8000   188416    {}             0 python3", pid, pid,
                       swapped);
  };
  for (int pid = 1000; pid < 1200; ++pid) lines.push_back(row(pid, 1500));
  lines.push_back(row(4312, 60'000));
  lines.push_back(
      "Memory cgroup out of memory: Killed process 4312 (python3) total-vm:360000kB, anon-rss:32000kB");
  const auto findings = findings_of(lines);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].evidence.back().text, HasSubstr("[   4312]"));
}

TEST(LogKills, ReadsFullSwapFromSystemdOomd) {
  const std::string group = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope";
  const std::string swap = "systemd-oomd[400]: Killed " + group +
                           " due to memory used (7516192768) / total (7945689497) and swap used (3865470566) "
                           "/ total (3972844748) being more than 90.00%";
  const auto findings = findings_of({swap});
  ASSERT_EQ(findings.size(), 1U);
  const Finding& finding = findings[0];
  EXPECT_EQ(finding.id, "process-killed-for-memory");
  EXPECT_THAT(finding.cause, HasSubstr("Swap was nearly full: 3.60 GiB of 3.70 GiB were used"));
  EXPECT_THAT(finding.cause, HasSubstr("the 90.00% limit"));
  EXPECT_THAT(finding.cause, Not(HasSubstr("wait too long")));
  EXPECT_EQ(finding.confidence, Confidence::certain);
  EXPECT_THAT(
      commands_of(finding),
      testing::IsSupersetOf({"SwapUsedLimit=95%",
                             "systemd-run --user --scope -p MemoryMax=SIZE -p MemorySwapMax=SIZE COMMAND"}));
  EXPECT_THAT(commands_of(finding), Each(Not(HasSubstr("ManagedOOMPreference")))) << "a user's is not heeded";
  EXPECT_THAT(commands_of(finding), Contains(HasSubstr("mkswap")));
  EXPECT_THAT(commands_of(finding), Contains(HasSubstr("zram")));
  // The format up to systemd 248.
  const auto old =
      findings_of({"systemd-oomd[400]: Killed /system.slice/det.service due to swap used (3865470566) / "
                   "total (3972844748) being more than 90.00%"});
  EXPECT_THAT(old.at(0).cause, HasSubstr("3.60 GiB of 3.70 GiB were used, more than"));
  EXPECT_EQ(figure(old[0], "ram_bytes"), -1);
  EXPECT_THAT(
      commands_of(old[0]),
      testing::IsSupersetOf({"sudo systemctl set-property det.service ManagedOOMPreference=avoid",
                             "sudo systemctl set-property det.service MemoryMax=SIZE MemorySwapMax=SIZE"}));
  // A kill because of memory pressure.
  const auto pressure = findings_of({"systemd-oomd[400]: Killed " + group + " due to memory pressure for " +
                                     group + " being 62.10% > 50.00% for > 20s with reclaim activity"});
  EXPECT_THAT(pressure.at(0).cause, HasSubstr("(62.10% > 50.00%)"));
  EXPECT_THAT(commands_of(pressure[0]), Each(Not(HasSubstr("Swap"))));
}

// The line of systemd-oomd and the lines of systemd about the same kill, in any order.
TEST(LogKills, KillBySystemdOomdIsOneEvent) {
  const std::string own =
      "systemd-oomd[400]: Killed /system.slice/det.service due to memory used (7516192768) / total "
      "(7945689497) and swap used (3865470566) / total (3972844748) being more than 90.00%";
  const std::string killed = "systemd[1]: det.service: systemd-oomd killed 213 process(es) in this unit.";
  const std::string result = "systemd[1]: det.service: Failed with result 'oom-kill'.";
  for (const Lines& lines :
       {Lines{own, killed, result}, {killed, own, result}, {own, result}, {result, own}}) {
    const auto findings = findings_of(lines);
    ASSERT_EQ(findings.size(), 1U) << lines[0];
    EXPECT_EQ(findings[0].times, 1) << lines[0];
    EXPECT_THAT(findings[0].cause, HasSubstr("Swap was nearly full")) << lines[0];
  }
  const auto alone = findings_of({killed});
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_THAT(alone[0].title, HasSubstr("(reported by systemd-oomd)"));
  // A kill by the kernel stays a separate finding.
  EXPECT_EQ(
      findings_of({summary("/docker/a", "python3", 77), sizes("python3", 77, 9838380, 507812), own}).size(),
      2U);
  for (const char* other :
       {"systemd[1]: Started systemd-oomd.service - Userspace Out-Of-Memory (OOM) Killer.",
        "systemd-oomd[400]: Swap is currently not detected; memory pressure usage will be degraded",
        "systemd-oomd[400]: No swap; memory pressure usage will be degraded",
        "systemd-oomd[400]: Failed to connect to /run/systemd/io.system.ManagedOOM: Connection refused",
        "systemd[1]: systemd-oomd.service: Deactivated successfully."})
    EXPECT_TRUE(findings_of({other}).empty()) << other;
}

// In Kubernetes, M is 10^6 and Mi is 2^20.
TEST(LogKills, ReadsKubernetesUnits) {
  const auto finding =
      findings_of({"The node was low on resource: memory. Threshold quantity: 500M, available: 480M. "
                   "Container foo was using 2G, request is 1G, has larger consumption of memory. "})
          .at(0);
  EXPECT_EQ(figure(finding, "threshold_bytes"), 500'000'000);
  EXPECT_EQ(figure(finding, "available_bytes"), 480'000'000);
  EXPECT_EQ(figure(finding, "resident_bytes"), 2'000'000'000);
  const std::pair<const char*, std::int64_t> kSizes[] = {
      {"100Mi", 100 << 20},     {"92112Ki,", 92112 << 10}, {"2Gi", 2LL << 30},   {"0", 0},       {"0,", 0},
      {"128974848", 128974848}, {"129e6", 129000000},      {"129M.", 129000000}, {"64k", 64000}, {"1500m", 2},
      {"1.5G", 1500000000},     {"1Ti", 1LL << 40}};
  for (const auto& [text, bytes] : kSizes) EXPECT_EQ(doctor::leading_quantity(text), Bytes{bytes}) << text;
  for (const char* text : {"", "Mi", "12parsecs", "9E", "nan", "-5M"})
    EXPECT_FALSE(doctor::leading_quantity(text)) << text;
}

TEST(LogKills, UsesUserSystemctlForUserUnits) {
  const std::string user = "/user.slice/user-1000.slice/user@1000.service";
  const auto cure = [](const std::string& group) {
    return findings_of({summary(group, "python3", 77)}).at(0).cures.at(1);
  };
  EXPECT_EQ(cure(user + "/app.slice/vision.service").command,
            "systemctl --user set-property vision.service MemoryMax=SIZE");
  EXPECT_THAT(cure(user + "/app.slice/vision.service").what, HasSubstr("as user 1000"));
  EXPECT_EQ(cure(user).command, "sudo systemctl set-property user@1000.service MemoryMax=SIZE");
  EXPECT_THAT(commands_of(findings_of({"systemd-oomd[612]: Killed " + user +
                                       "/app.slice/vision.service due to memory pressure for " + user +
                                       " being 62.10% > 50.00% for > 20s"})
                              .at(0)),
              Contains("systemctl --user set-property vision.service ManagedOOMPreference=avoid"));
  EXPECT_EQ(doctor::user_of("/user@x; rm.service/a"), "");
}

TEST(LogKills, NamesPodAsKubectlExpects) {
  const auto describe = [](const std::string& row) { return findings_of({row}).at(0).cures.at(2).command; };
  EXPECT_EQ(describe("pod/detector-7d9f8c-abcde   0/1     OOMKilled   3 (25s ago)   2m"),
            "kubectl describe pod detector-7d9f8c-abcde");
  EXPECT_EQ(describe("robots   pod/detector-0   0/1     OOMKilled   3 (25s ago)   2m"),
            "kubectl describe pod --namespace robots detector-0");
  EXPECT_EQ(describe("10:00:00 detector-0   0/1     OOMKilled   3 (25s ago)   2m"),
            "kubectl describe pod detector-0");
}

TEST(LogKills, LimitsRosNodeWithItsOwnCommand) {
  const auto command = [](const std::string& end) {
    return findings_of({"[ERROR] [detector_node-1]: process has died [pid 4312, exit code -9, " + end})
        .at(0)
        .cures.at(1)
        .command;
  };
  const std::string run = "headroom run --limit SIZE -- ";
  EXPECT_EQ(command("cmd '/opt/ros/humble/lib/detector/detector_node --ros-args -r __node:=det']."),
            run + "/opt/ros/humble/lib/detector/detector_node --ros-args -r __node:=det");
  EXPECT_EQ(command("cmd '/opt/x -p classes:=[1]; rm -rf ~']."),
            run + "/opt/x -p 'classes:=[1];' rm -rf '~'");
  EXPECT_EQ(command("cmd '/opt/ros/humble/lib/dete"), run + "ros2 launch PACKAGE LAUNCH_FILE");
}

TEST(LogKills, LooksUpContainerByComposeService) {
  const auto first = [](const std::string& name) {
    return findings_of({name + " exited with code 137"}).at(0).cures.at(0).command;
  };
  EXPECT_EQ(first("my-detector-1"),
            "docker inspect --format '{{.State.OOMKilled}}' $(docker compose ps -aq my-detector)");
  EXPECT_EQ(first("ws_detector_1"), "docker inspect --format '{{.State.OOMKilled}}' ws_detector_1");
}

// The report of a Jetson: most memory belongs to no process.
Lines machine_report(const Lines& tasks) {
  return Lines{"DeviceMemory invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0",
               "active_anon:23456 inactive_anon:54321 isolated_anon:0",
               " active_file:120 inactive_file:340 isolated_file:0",
               " unevictable:0 dirty:0 writeback:0",
               " slab_reclaimable:9000 slab_unreclaimable:21000",
               " free:12000 free_pcp:100 free_cma:0",
               "1940000 pages RAM",
               "38000 pages reserved",
               "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"} +
         tasks +
         Lines{"Out of memory: Kill process 2700 (DeviceMemory) score 1 or sacrifice child",
               "Killed process 2700 (DeviceMemory) total-vm:1838376kB, anon-rss:2632kB, file-rss:628kB"};
}

TEST(LogKills, SuggestsToStopWholeDesktop) {
  const auto findings = findings_of(
      machine_report({"[   2700]  1000  2700  459595      815  900000    0             0 DeviceMemory",
                      "[   1100]  1000  1100  959595     6000  900000    0             0 Xorg",
                      "[   1200]  1000  1200  959595     9000  900000    0             0 gnome-shell"}));
  ASSERT_EQ(findings.size(), 1U);
  const auto& cures = findings[0].cures;
  EXPECT_EQ(cures.at(0).command, "headroom top");
  EXPECT_EQ(cures.at(1).command, "sudo systemctl isolate multi-user.target");
  EXPECT_EQ(cures.at(1).saves, Bytes{15'000LL * 4096});
  EXPECT_THAT(cures.at(1).what, HasSubstr("(Xorg, gnome-shell)"));
  EXPECT_THAT(commands_of(findings[0]), Contains("sudo systemctl set-default multi-user.target"));
  for (const Cure& cure : cures) EXPECT_THAT(cure.what, Not(HasSubstr("smaller")));
  EXPECT_EQ(figure(findings[0], "desktop_bytes"), 15'000 * 4096);
}

TEST(LogKills, DoesNotSuggestToShrinkSmallProcess) {
  // A tenth of the 6.8 GiB without an owner is 178,000 pages.
  const auto cures = [](int pages) {
    const auto findings = findings_of(machine_report(
        {fmt::format("[   1300]  1000  1300  959595   {}  900000    0             0 python3", pages)}));
    return findings.at(0).cures;
  };
  for (const Cure& cure : cures(9000)) EXPECT_THAT(cure.what, Not(HasSubstr("python3")));
  EXPECT_THAT(cures(200'000).at(1).what, HasSubstr("make python3 smaller"));
  const auto findings = findings_of(machine_report({}));
  EXPECT_THAT(commands_of(findings.at(0)), Each(Not(HasSubstr("isolate"))));
}

doctor::LogMessage kill_of(const std::string& program, std::string_view told_by) {
  doctor::LogMessage message;
  message.subject = program;
  message.add("told_by", told_by);
  return message;
}

TEST(LogKills, RosLaunchAnnouncesItsKills) {
  const auto is_explained = [](const Lines& before, std::int64_t at = 10) {
    AnnouncedKills kills;
    std::int64_t number = 0;
    for (const std::string& line : before) kills.read(line, ++number);
    return kills.explain(kill_of("camera-1", doctor::kLaunch), at);
  };
  const std::string sends = "[INFO] [camera-1]: sending signal 'SIGKILL' to process[camera-1]";
  EXPECT_TRUE(is_explained({sends}));
  EXPECT_TRUE(
      is_explained({"[ERROR] [camera-1]: process[camera-1] failed to terminate '10.0' seconds after "
                    "receiving 'SIGTERM', escalating to 'SIGKILL'"}));
  EXPECT_FALSE(is_explained({}));
  EXPECT_FALSE(is_explained({"[INFO] [camera-1]: sending signal 'SIGTERM' to process[camera-1]"}));
  EXPECT_FALSE(is_explained({"[INFO] [camera-11]: sending signal 'SIGKILL' to process[camera-11]"}));
  EXPECT_FALSE(is_explained({sends}, 2 + AnnouncedKills::kNear));
  EXPECT_FALSE(is_explained({sends, "[INFO] [camera-1]: process started with pid [2400]"}));
  AnnouncedKills kills;
  kills.read(sends, 1);
  EXPECT_FALSE(kills.explain(kill_of("camera-1", ""), 2)) << "the kernel's";
  EXPECT_TRUE(kills.explain(kill_of("camera-1", doctor::kLaunch), 2));
  EXPECT_FALSE(kills.explain(kill_of("camera-1", doctor::kLaunch), 3)) << "it died again";
}

TEST(LogKills, ComposeAnnouncesItsKills) {
  const auto is_explained = [](const std::string& before, const std::string& name = "detector-1") {
    AnnouncedKills kills;
    kills.read(before, 1);
    return kills.explain(kill_of(name, doctor::kCompose), 2);
  };
  EXPECT_TRUE(is_explained(" Container ws-detector-1  Killed"));
  EXPECT_TRUE(is_explained(" ✔ Container ws-detector-1  Stopping   10.2s"));
  EXPECT_TRUE(is_explained(" Container ws-detector-1 Killing "));
  EXPECT_TRUE(is_explained("Gracefully stopping... (press Ctrl+C again to force)", "nav-1"));
  EXPECT_FALSE(is_explained(" Container ws-detector-1  Started"));
  EXPECT_FALSE(is_explained(" Container ws-detector-1  Killed", "or-1"));
  EXPECT_FALSE(is_explained(" Container ws-nav-1  Killed"));
}

// The log when a user stops a launch file or containers.
TEST(LogKills, AnnouncedKillIsNotAFinding) {
  const std::string died =
      "[ERROR] [camera-1]: process has died [pid 2201, exit code -9, cmd '/opt/ros/camera --ros-args'].";
  const std::string sends = "[INFO] [camera-1]: sending signal 'SIGKILL' to process[camera-1]";
  EXPECT_TRUE(findings_of({sends, died}).empty());
  EXPECT_EQ(findings_of({sends, died, died}).size(), 1U);
  EXPECT_EQ(findings_of({died}).size(), 1U);
  EXPECT_TRUE(findings_of({" Container ws-detector-1  Killed", "detector-1 exited with code 137"}).empty());
  EXPECT_EQ(findings_of({" Container ws-nav-1  Killed", "detector-1 exited with code 137"}).size(), 1U);
  // An announcement in another file does not count.
  doctor::LogFindings logs;
  logs.read_line("a", 1, sends);
  logs.end_file();
  logs.read_line("b", 2, died);
  EXPECT_EQ(logs.findings().size(), 1U);
}

}  // namespace
}  // namespace headroom::test
