// One kill that several programs report is one finding; two kills are two findings.
#include <fmt/format.h>

#include "doctor/log/recent_kills.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::are_apart;
using doctor::LogTime;
using doctor::time_of;
using testing::Contains;
using testing::HasSubstr;

const std::string kKill =
    "kernel: Out of memory: Killed process 812 (rviz2) total-vm:4000000kB, anon-rss:2500000kB, "
    "file-rss:10kB, shmem-rss:20kB, UID:1000 pgtables:6000kB oom_score_adj:0";
const std::string kByKiller = ": A process of this unit has been killed by the OOM killer.";
const std::string kResult = ": Failed with result 'oom-kill'.";

std::string at(const std::string& time, const std::string& text) {
  return fmt::format("Mar 02 {} orin {}", time, text);
}
std::string systemd(const std::string& time, const std::string& text) {
  return at(time, "systemd[1]: " + text);
}

std::string summary(const std::string& limited, const std::string& path, int pid,
                    const std::string& task = "app") {
  return fmt::format(
      "oom-kill:constraint={},nodemask=(null),cpuset=/,mems_allowed=0,{}task_memcg={},task={},pid={},uid=0",
      limited.empty() ? "CONSTRAINT_NONE" : "CONSTRAINT_MEMCG",
      limited.empty() ? "global_oom," : fmt::format("oom_memcg={},", limited), path, task, pid);
}

TEST(LogKillJoins, KillHoursLaterIsASeparateFinding) {
  const auto findings = findings_of(
      {at("10:00:00", kKill), systemd("10:00:01", "session-2.scope" + kByKiller),
       at("14:30:00", "sshd[1]: Accepted publickey for u"), systemd("14:30:00", "nav2.service" + kByKiller),
       systemd("14:30:00", "nav2.service: Main process exited, code=killed, status=9/KILL"),
       systemd("14:30:00", "nav2.service" + kResult)});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "kernel-oom-kill");
  EXPECT_EQ(findings[0].evidence.size(), 2U);
  EXPECT_EQ(findings[1].id, "process-killed-for-memory");
  EXPECT_THAT(findings[1].title, HasSubstr("The service nav2 was killed"));
  EXPECT_EQ(findings[1].times, 1);
  EXPECT_EQ(findings[1].evidence.size(), 2U);
  EXPECT_THAT(commands_of(findings[1]),
              Contains("systemctl show -p MemoryMax -p MemoryHigh -p MemorySwapMax nav2"));
}

TEST(LogKillJoins, KillAtOneTimeBelongsToOneUnit) {
  const Lines one{at("10:00:00", kKill), systemd("10:00:01", "nav2.service" + kByKiller),
                  systemd("10:00:02", "nav2.service" + kResult)};
  EXPECT_EQ(ids_of(one), Lines{"kernel-oom-kill"});
  Lines two = one;
  two.push_back(systemd("10:00:03", "vision.service" + kResult));
  EXPECT_EQ(ids_of(two), (Lines{"kernel-oom-kill", "process-killed-for-memory"}));
  // Without times, only the distance in lines counts.
  EXPECT_EQ(ids_of({kKill, "nav2.service" + kResult}), Lines{"kernel-oom-kill"});
  Lines far{kKill};
  far.resize(doctor::kNearLines + 2, "a line");
  far.push_back("nav2.service" + kResult);
  EXPECT_EQ(ids_of(far).size(), 2U);
}

TEST(LogKillJoins, KernelGroupSelectsTheUnit) {
  const auto ids = [](const std::string& path, const std::string& unit) {
    return ids_of({summary({}, path, 812), kKill, unit + kResult});
  };
  EXPECT_EQ(ids("/system.slice/nav2.service", "nav2.service").size(), 1U);
  EXPECT_EQ(ids("/system.slice/nav2.service", "vision.service").size(), 2U);
  EXPECT_EQ(
      ids("/user.slice/user-1000.slice/user@1000.service/app.slice/app-a.scope", "user@1000.service").size(),
      1U);
  // Two kills, which systemd reports in the same order.
  const auto findings = findings_of(
      {summary({}, "/system.slice/nav2.service", 812), kKill,
       summary({}, "/system.slice/vision.service", 900, "python3"),
       "Out of memory: Killed process 900 (python3) total-vm:4000kB, anon-rss:2500kB, file-rss:10kB",
       "nav2.service" + kResult, "vision.service" + kResult});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].evidence.back().text, HasSubstr("nav2"));
  EXPECT_THAT(findings[1].evidence.back().text, HasSubstr("vision"));
  // If a slice reaches its limit, the kernel names the unit of the victim.
  EXPECT_EQ(
      ids_of({summary("/robot.slice", "/robot.slice/nav2.service", 5), "nav2.service" + kResult}).size(), 1U);
  EXPECT_EQ(ids_of({summary("/robot.slice", "/robot.slice/nav2.service", 5), "a.service" + kResult}).size(),
            2U);
}

TEST(LogKillJoins, JoinsUnitAndPeakWithKill) {
  const Finding finding = finding_in(
      {at("10:00:00", "kernel: oom_reaper: reaped process 999 (python3), now anon-rss:0kB, file-rss:0kB"),
       systemd("10:00:00", "vision.service: Main process exited, code=killed, status=9/KILL"),
       systemd("10:00:00", "vision.service" + kResult),
       systemd("10:00:00", "vision.service: Consumed 3min 2.100s CPU time, 6.1G memory peak.")});
  EXPECT_EQ(figure(finding, "memory_peak_bytes"), 6549825126);
  EXPECT_THAT(finding.cause, HasSubstr("its unit vision held up to 6.10 GiB"));
}

TEST(LogKillJoins, PeakOfUnitIsAFigureNotAFinding) {
  const std::string peak =
      "vision.service: Consumed 3min 2.100s CPU time, 6.1G memory peak, 0B memory swap peak.";
  EXPECT_TRUE(findings_of({peak}).empty());
  EXPECT_TRUE(findings_of({"backup.service: Consumed 1.200s CPU time, 40.0M memory peak."}).empty());
  const Finding finding = only_of({"vision.service" + kResult, peak, "vision.service" + kByKiller});
  EXPECT_EQ(figure(finding, "memory_peak_bytes"), 6549825126);
  EXPECT_THAT(finding.cause, HasSubstr("peak was 6.10 GiB"));
  // The peak of another unit.
  EXPECT_EQ(figure(findings_of({"nav2.service" + kResult, peak}).at(0), "memory_peak_bytes"), -1);
}

std::string died(const std::string& time, const std::string& node, int pid) {
  return at(time, fmt::format(
                      "launch[900]: [ERROR] [{}]: process has died [pid {}, exit code -9, cmd '/opt/ros/x'].",
                      node, pid));
}

TEST(LogKillJoins, LineOfRosLaunchIsEvidence) {
  const auto findings =
      findings_of({at("10:00:00", kKill), died("10:00:05", "rviz2-2", 812), died("10:00:05", "yolo-3", 999)});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "kernel-oom-kill");
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_THAT(findings[0].evidence.back().text, HasSubstr("rviz2-2"));
  EXPECT_THAT(findings[1].title, HasSubstr("yolo-3"));
}

TEST(LogKillJoins, JoinsInEitherOrder) {
  const Finding finding = finding_in({died("09:59:55", "rviz2-2", 812), at("10:00:00", kKill)});
  EXPECT_EQ(finding.id, "kernel-oom-kill");
  EXPECT_EQ(finding.evidence.at(0).line, 2);
  EXPECT_EQ(finding.evidence.at(1).line, 1);
  // The node was killed before, for another reason.
  const auto again = findings_of(
      {died("08:00:00", "rviz2-2", 700), died("09:59:55", "rviz2-2", 812), at("10:00:00", kKill)});
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[1].id, "process-killed");
  EXPECT_EQ(again[1].times, 1);
  EXPECT_EQ(again[1].evidence.size(), 1U);
}

TEST(LogKillJoins, OtherProcessOrTimeIsAnotherKill) {
  EXPECT_EQ(findings_of({at("10:00:00", kKill), died("10:00:05", "rviz2-2", 813)}).size(), 2U);
  EXPECT_EQ(findings_of({at("10:00:00", kKill), died("11:00:05", "rviz2-2", 812)}).size(), 2U);
  EXPECT_EQ(findings_of({died("08:00:00", "rviz2-2", 812), at("10:00:00", kKill)}).size(), 2U);
  // Lines of a shell and of kubelet also join by process number.
  EXPECT_EQ(findings_of({kKill, "run.sh: line 3:   812 Killed       rviz2"}).size(), 1U);
  EXPECT_EQ(findings_of({"System OOM encountered, victim process: rviz2, pid: 812", kKill}).size(), 1U);
  // A line of an interactive shell has no number. It joins the last kill, in either order.
  EXPECT_EQ(findings_of({kKill, "Killed"}).size(), 1U);
  EXPECT_EQ(findings_of({"Killed", "u@orin:~$ dmesg", kKill}).size(), 1U);
}

// An old kernel kills a child of the chosen process. The following lines belong to the killed child.
TEST(LogKillJoins, WithdrawnKillDoesNotJoinLines) {
  const auto findings =
      findings_of({"Out of memory: Kill process 2700 (launcher) score 1 or sacrifice child",
                   "Killed process 2750 (detector) total-vm:1838376kB, anon-rss:2632kB, file-rss:628kB",
                   "a.service" + kResult, "b.service" + kResult});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[1].title, HasSubstr("The service b"));
}

TEST(LogKillJoins, ParsesTimesOfLogs) {
  const auto seconds = [](std::string_view line) { return time_of(line).value_or(LogTime{}).seconds; };
  for (const char* line :
       {"Mar 02 10:00:05 orin x", "[Mon Mar  2 10:00:05 2026] x", "2026-12-31T10:00:05.5+0100 x"})
    EXPECT_EQ(seconds(line), 36005) << line;
  EXPECT_EQ(seconds("[  510.812345] Out of memory"), 510);
  EXPECT_TRUE(time_of("[    0.000000] x")->is_since_boot);
  for (const char* line :
       {"", "[", "[12", "Mar 02 10:00", "2026-11-21", "Killed", "[detector-1]: v1.5 ready", "[x.y] z"})
    EXPECT_FALSE(time_of(line)) << line;
  EXPECT_FALSE(are_apart(time_of("23:59:59 x"), time_of("00:00:01 x"))) << "midnight";
  const auto early = time_of("Mar 02 10:00:00 x"), late = time_of("Mar 02 10:01:01 x");
  EXPECT_TRUE(are_apart(early, late));
  EXPECT_FALSE(are_apart(early, time_of("Mar 02 10:01:00 x")));
  EXPECT_FALSE(are_apart(early, time_of("[ 99999.5] x"))) << "two different clocks cannot be compared";
  EXPECT_FALSE(are_apart(early, std::nullopt));
}

}  // namespace
}  // namespace headroom::test
