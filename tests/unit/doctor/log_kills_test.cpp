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
  const Finding finding =
      finding_in(group_report(kProbe, "headroom", 24587) + group_report(kOtherProbe, "headroom", 24595));
  EXPECT_EQ(finding.id, "limit-probe-kill");
  EXPECT_EQ(finding.severity, Severity::benign);
  EXPECT_EQ(finding.times, 2);
  // The reaper's line belongs to the kill. A truncated report is benign, too.
  EXPECT_EQ(findings_of(group_report(kProbe, "headroom", 7) +
                        Lines{"oom_reaper: reaped process 7 (headroom), now anon-rss:0kB, file-rss:0kB"})
                .size(),
            1U);
  Lines cut = group_report(kProbe, "headroom", 24587);
  cut.resize(5);
  EXPECT_EQ(findings_of(cut).at(0).severity, Severity::benign);
  // Up to kernel 5.2 the report names the group, and a kill has two lines.
  const Finding old =
      only_of({"headroom invoked oom-killer: gfp_mask=0x0",
               "Task in " + kProbe + " killed as a result of limit of " + kProbe,
               "Memory cgroup out of memory: Kill process 8 (headroom) score 1000 or sacrifice child",
               "Killed process 8 (headroom) total-vm:80456kB, anon-rss:61184kB, file-rss:0kB"});
  EXPECT_EQ(old.severity, Severity::benign);
}

TEST(LogKills, LimitProbeDoesNotHideOtherKill) {
  // A model's process may be as small as a probe, but its group is known.
  const Finding own = finding_in(group_report("/a/headroom-24464-2-yolo", "headroom", 24467));
  EXPECT_EQ(own.id, "cgroup-oom-kill");
  EXPECT_EQ(own.severity, Severity::severe);
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
  const Finding alone = finding_in({killed});
  EXPECT_THAT(alone.title, HasSubstr("(reported by systemd-oomd)"));
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

TEST(LogKills, CureNamesUnitPodNodeOrContainer) {
  const std::string user = "/user.slice/user-1000.slice/user@1000.service",
                    run = "headroom run --limit SIZE -- ";
  const auto died = [](const std::string& end) {
    return "[ERROR] [detector_node-1]: process has died [pid 4312, exit code -9, " + end;
  };
  struct {
    std::string line;
    std::size_t cure;
    std::string command;
  } const kCures[] = {
      {summary(user + "/app.slice/vision.service", "python3", 77), 1,
       "systemctl --user set-property vision.service MemoryMax=SIZE"},
      {summary(user, "python3", 77), 1, "sudo systemctl set-property user@1000.service MemoryMax=SIZE"},
      {"pod/detector-7d9f8c-abcde   0/1     OOMKilled   3 (25s ago)   2m", 2,
       "kubectl describe pod detector-7d9f8c-abcde"},
      {"robots   pod/detector-0   0/1     OOMKilled   3 (25s ago)   2m", 2,
       "kubectl describe pod --namespace robots detector-0"},
      {"10:00:00 detector-0   0/1     OOMKilled   3 (25s ago)   2m", 2, "kubectl describe pod detector-0"},
      {died("cmd '/opt/ros/humble/lib/detector/detector_node --ros-args -r __node:=det']."), 1,
       run + "/opt/ros/humble/lib/detector/detector_node --ros-args -r __node:=det"},
      {died("cmd '/opt/x -p classes:=[1]; rm -rf ~']."), 1, run + "/opt/x -p 'classes:=[1];' rm -rf '~'"},
      {died("cmd '/opt/ros/humble/lib/dete"), 1, run + "ros2 launch PACKAGE LAUNCH_FILE"},
      {"my-detector-1 exited with code 137", 0,
       "docker inspect --format '{{.State.OOMKilled}}' $(docker compose ps -aq my-detector)"},
      {"ws_detector_1 exited with code 137", 0,
       "docker inspect --format '{{.State.OOMKilled}}' ws_detector_1"}};
  for (const auto& each : kCures)
    EXPECT_EQ(findings_of({each.line}).at(0).cures.at(each.cure).command, each.command) << each.line;
  EXPECT_THAT(commands_of(findings_of({"systemd-oomd[612]: Killed " + user +
                                       "/app.slice/vision.service due to memory pressure for " + user +
                                       " being 62.10% > 50.00% for > 20s"})
                              .at(0)),
              Contains("systemctl --user set-property vision.service ManagedOOMPreference=avoid"));
  EXPECT_EQ(doctor::user_of("/user@x; rm.service/a"), "");
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
  const Finding finding = finding_in(
      machine_report({"[   2700]  1000  2700  459595      815  900000    0             0 DeviceMemory",
                      "[   1100]  1000  1100  959595     6000  900000    0             0 Xorg",
                      "[   1200]  1000  1200  959595     9000  900000    0             0 gnome-shell"}));
  const auto& cures = finding.cures;
  EXPECT_EQ(cures.at(0).command, "headroom top");
  EXPECT_EQ(cures.at(1).command, "sudo systemctl isolate multi-user.target");
  EXPECT_EQ(cures.at(1).saves, Bytes{15'000LL * 4096});
  EXPECT_THAT(cures.at(1).what, HasSubstr("(Xorg, gnome-shell)"));
  EXPECT_THAT(commands_of(finding), Contains("sudo systemctl set-default multi-user.target"));
  for (const Cure& cure : cures) EXPECT_THAT(cure.what, Not(HasSubstr("smaller")));
  EXPECT_EQ(figure(finding, "desktop_bytes"), 15'000 * 4096);
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

TEST(LogKills, LaunchAndComposeAnnounceTheirKills) {
  const std::string sends = "[INFO] [camera-1]: sending signal 'SIGKILL' to process[camera-1]";
  struct {
    Lines before;
    std::string_view told_by;
    bool is_explained;
    std::string program = "camera-1";
    std::int64_t at = 10;
  } const kKills[] = {
      {{sends}, doctor::kLaunch, true},
      {{"[ERROR] [camera-1]: process[camera-1] failed to terminate '10.0' seconds after receiving 'SIGTERM', "
        "escalating to 'SIGKILL'"},
       doctor::kLaunch,
       true},
      {{}, doctor::kLaunch, false},
      {{sends}, "", false},  // the kernel's
      {{"[INFO] [camera-1]: sending signal 'SIGTERM' to process[camera-1]"}, doctor::kLaunch, false},
      {{"[INFO] [camera-11]: sending signal 'SIGKILL' to process[camera-11]"}, doctor::kLaunch, false},
      {{sends}, doctor::kLaunch, false, "camera-1", 2 + doctor::kNearLines},
      {{sends, "[INFO] [camera-1]: process started with pid [2400]"}, doctor::kLaunch, false},
      {{" Container ws-camera-1  Killed"}, doctor::kCompose, true},
      {{" ✔ Container ws-camera-1  Stopping   10.2s"}, doctor::kCompose, true},
      {{" Container ws-camera-1 Killing "}, doctor::kCompose, true},
      {{"Gracefully stopping... (press Ctrl+C again to force)"}, doctor::kCompose, true},
      {{" Container ws-camera-1  Started"}, doctor::kCompose, false},
      {{" Container ws-camera-1  Killed"}, doctor::kCompose, false, "ra-1"},
      {{" Container ws-nav-1  Killed"}, doctor::kCompose, false}};
  for (const auto& each : kKills) {
    AnnouncedKills kills;
    std::int64_t number = 0;
    for (const std::string& line : each.before) kills.read(line, ++number);
    doctor::LogMessage message;
    message.subject = each.program;
    message.add("told_by", each.told_by);
    EXPECT_EQ(kills.explain(message, each.at), each.is_explained) << testing::PrintToString(each.before);
    EXPECT_FALSE(kills.explain(message, each.at) && each.told_by == doctor::kLaunch) << "it died again";
  }
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
