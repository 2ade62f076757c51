// Memory failures that daemons, supervisors, schedulers and runtimes report in several lines. They are one
// event with the figures of all lines. Harmless lines are not a finding.
#include <string>
#include <vector>

#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::string kPressure =
    "Mar 02 10:00:00 pc systemd-oomd[34]: Memory pressure for /work.slice is 64.15% > 1.00% for > 30s with "
    "reclaim activity";
const std::string kOomdKilled =
    "Mar 02 10:00:01 pc systemd-oomd[34]: Killed /work.slice/sim.service due to mem>";
const std::string kMainExited =
    "Mar 02 10:00:01 pc systemd[1]: sim.service: Main process exited, code=killed, status=9/KILL";
const std::string kUnitOfOomd =
    "Mar 02 10:00:01 pc systemd[1]: sim.service: systemd-oomd killed 2 process(es) in this unit.";

TEST(LogReportedKills, OomdLinesAreOneEventWithPressure) {
  for (const Lines& lines : {Lines{kPressure, kOomdKilled, kUnitOfOomd, kMainExited},
                             Lines{kPressure, kMainExited, kOomdKilled, kUnitOfOomd},
                             Lines{kPressure, kUnitOfOomd, kMainExited}}) {
    const auto findings = findings_of(lines);
    ASSERT_EQ(findings.size(), 1U) << lines[2];
    EXPECT_THAT(findings[0].title, HasSubstr("sim"));
    EXPECT_EQ(findings[0].times, 1);
    EXPECT_EQ(text_figure(findings[0], "pressure"), "64.15% > 1.00%");
    EXPECT_EQ(findings[0].confidence, Confidence::certain);
  }
}

TEST(LogReportedKills, StopBySystemdIsNotAFinding) {
  EXPECT_EQ(ids_of({kMainExited}), Lines{"process-killed"});
  for (const char* announced : {"systemd[1]: sim.service: State 'stop-sigterm' timed out. Killing.",
                                "systemd[1]: sim.service: Killing process 812 (sim) with signal SIGKILL.",
                                "systemd[1]: Stopping sim.service - Simulation..."})
    EXPECT_TRUE(findings_of({announced, kMainExited}).empty()) << announced;
  EXPECT_EQ(ids_of({"systemd[1]: Stopping sim.service - Simulation...",
                    "systemd[1]: Stopped sim.service - Simulation.", kMainExited}),
            Lines{"process-killed"});
  EXPECT_EQ(ids_of({"systemd[1]: Stopping other.service - Other...", kMainExited}), Lines{"process-killed"});
  // A kill by the kernel inside the unit is still a finding.
  EXPECT_EQ(ids_of({"Mar 02 10:00:00 pc systemd[1]: sim.service: A process of this unit has been killed by "
                    "the OOM killer.",
                    kMainExited}),
            Lines{"process-killed-for-memory"});
  EXPECT_EQ(
      ids_of({kMainExited, "Mar 02 10:00:02 pc systemd[1]: sim.service: Failed with result 'oom-kill'."}),
      Lines{"process-killed-for-memory"});
}

TEST(LogReportedKills, KillInSliceIsReportedForItsUnit) {
  const auto killed = [](const std::string& unit) {
    return "2026-02-08T00:40:07+00:00 host systemd[1]: " + unit +
           ": A process of this unit has been killed by the OOM killer.";
  };
  const auto findings =
      findings_of({killed("user-1007.slice"), killed("system-db.slice"), killed("user@1007.service"),
                   killed("user.slice"), killed("system.slice")});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_EQ(text_figure(findings[0], "unit"), "user@1007");
  EXPECT_EQ(text_figure(findings[1], "unit"), "system-db.slice");
  EXPECT_EQ(findings_of({killed("db.service"), killed("web.service")}).size(), 2U);
  EXPECT_EQ(findings_of({killed("user-1007.slice"), killed("user@1008.service")}).size(), 2U);
}

TEST(LogReportedKills, ReadsAvailableMemoryFromEarlyoom) {
  const auto sent = [](int pid, const std::string& name, int mib) {
    return "earlyoom[26]: sending SIGTERM to process " + std::to_string(pid) + " uid 1000 \"" + name +
           "\": badness 801, VmRSS " + std::to_string(mib) + " MiB";
  };
  const std::string available =
      "earlyoom[26]: mem avail:   207 of 31880 MiB ( 0.65%), swap free: 19327 of 49151 MiB (39.32%)";
  const auto findings = findings_of({available, sent(57, "code", 5), sent(58, "code", 5400)});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 2);
  EXPECT_EQ(figure(findings[0], "pid"), 58) << "the larger";
  EXPECT_EQ(figure(findings[0], "available_bytes"), 207LL << 20);
  EXPECT_EQ(findings[0].confidence, Confidence::certain);
  EXPECT_THAT(findings[0].evidence.at(0).text, HasSubstr("5400 MiB"));
  EXPECT_EQ(findings_of({sent(57, "node", 637), sent(57, "node", 656)}).at(0).times, 1) << "signalled twice";
  EXPECT_TRUE(
      findings_of({"Could not lock memory - continuing anyway: Cannot allocate memory", available}).empty());
}

TEST(LogReportedKills, JoinsBrokenRayLine) {
  const Finding finding = only_of(
      {"ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
       "Memory on the node (IP: 10.1.2.3, ...) where the lease (name=Roll.__init__, pid=37, memory "
       "used=0.50GB)",
       "was running was 126.50GB / 128.00GB (0.988281), which exceeds the memory usage threshold of 0.95."});
  EXPECT_EQ(text_figure(finding, "task"), "Roll.__init__");
  EXPECT_EQ(figure(finding, "total_bytes"), 128LL << 30);
  const auto workers = findings_of(
      {"(raylet) 12 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to "
       "other reasons at node (ID: b8aa, IP: 10.1.2.4) over the last time period."});
  EXPECT_EQ(workers.at(0).title, "Ray killed 12 workers: the node 10.1.2.4 ran low on memory");
  EXPECT_THAT(workers[0].cause, HasSubstr("More of the node's memory was used than Ray allows"));
}

TEST(LogReportedKills, ContainerExitCodeAloneIsAWarning) {
  EXPECT_EQ(ids_of({"        \"OOMKilled\": false,", "        \"ExitCode\": 137,"}), Lines{"process-killed"});
  EXPECT_EQ(ids_of({"        \"OOMKilled\": true,", "        \"ExitCode\": 137,"}),
            Lines{"process-killed-for-memory"});
  EXPECT_EQ(ids_of({"      \"exitCode\": 137,", "      \"reason\": \"Error\","}), Lines{"process-killed"});
  EXPECT_EQ(ids_of({"      \"exitCode\": 137,", "      \"reason\": \"OOMKilled\","}),
            Lines{"process-killed-for-memory"});
  EXPECT_EQ(ids_of({"          exitCode: 137"}), Lines{"process-killed"});
  EXPECT_TRUE(findings_of({"a job whose exitCode: 137 is set ends by SIGKILL"}).empty());
  const Finding pod =
      only_of({"web-7d9f8c-abcde     0/1     OOMKilled   3 (25s ago)   2m11s", "",
               "    Last State:     Terminated", "      Reason:       OOMKilled", "      Exit Code:    137"});
  EXPECT_THAT(pod.title, HasSubstr("web-7d9f8c-abcde"));
}

TEST(LogReportedKills, ExitCodeInJsonIsNotAlwaysKubernetes) {
  const std::string code = "      \"exitCode\": 137,";
  const Finding alone = findings_of({code}).at(0);
  EXPECT_THAT(alone.cause, Not(HasSubstr("Kubernetes")));
  EXPECT_THAT(commands_of(alone), Not(Contains(HasSubstr("kubectl"))));
  for (const std::string key :
       {"  \"containerStatuses\": [", "    \"lastState\": {", "  - containerID: containerd://4f2a"}) {
    const Finding finding = findings_of({key, code}).at(0);
    EXPECT_THAT(finding.cause, HasSubstr("Kubernetes")) << key;
    EXPECT_THAT(commands_of(finding), Contains("kubectl describe pod POD")) << key;
  }
  EXPECT_THAT(findings_of({"      Exit Code:    137"}).at(0).cause, HasSubstr("Kubernetes"));
}

TEST(LogReportedKills, JoinsBrokenEviction) {
  const std::string low = "message: 'The node was low on resource: memory. ";
  const auto yaml = findings_of({low + "Container web was using 2097152Ki,",
                                 "    which exceeds its request of 1Gi. '", "  phase: Failed"});
  ASSERT_EQ(yaml.size(), 1U);
  EXPECT_EQ(figure(yaml[0], "request_bytes"), 1LL << 30);
  const auto second = findings_of(
      {low, "Container web was using 2097152Ki, request is 1Gi, has larger consumption of memory."});
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(figure(second[0], "resident_bytes"), 2LL << 30);
  EXPECT_EQ(findings_of({low, low + "Container web was using 2097152Ki, request is 0"}).size(), 2U);
}

// Triton reports a failed load only in this table. Other tables merely mention errors.
TEST(LogReportedKills, ReadsFailureFromTritonTable) {
  EXPECT_EQ(ids_of({"| encoder | 1       | UNAVAILABLE: Internal: onnx runtime error 6: CUDA failure 2: out "
                    "of memory |"})
                .size(),
            1U);
  EXPECT_TRUE(findings_of({"| encoder | CUDA failure 2: out of memory | retry |"}).empty());
}

// The kernel always prints the unit.
TEST(LogReportedKills, IgnoresTruncatedNumber) {
  const auto findings =
      findings_of({"Memory cgroup out of memory: Killed process 38287 (dd) total-vm:21724kB, anon-rss:147"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(figure(findings[0], "virtual_bytes"), 21724LL << 10);
  EXPECT_EQ(figure(findings[0], "anonymous_bytes"), -1);
}

}  // namespace
}  // namespace headroom::test
