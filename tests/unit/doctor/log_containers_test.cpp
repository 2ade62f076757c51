// Kills that containers, schedulers and supervisors report: names, limits, and commands that work.
#include <fmt/format.h>

#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

using Lines = std::vector<std::string>;

std::string text_of(const Finding& finding, std::string_view name) {
  for (const Figure& each : finding.figures)
    if (each.name == name && std::holds_alternative<std::string>(each.value))
      return std::get<std::string>(each.value);
  return {};
}

const Lines kInspected{"        \"State\": {",
                       "            \"Status\": \"exited\",",
                       "            \"OOMKilled\": true,",
                       "            \"ExitCode\": 137,",
                       "        \"Name\": \"/detector\",",
                       "        \"HostConfig\": {",
                       "            \"Memory\": 536870912,"};

TEST(LogContainers, ReadsNameAndLimitFromDockerInspect) {
  const auto findings = findings_of(kInspected);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(text_of(findings[0], "container"), "detector");
  EXPECT_EQ(figure(findings[0], "limit_bytes"), 536870912);
  EXPECT_THAT(findings[0].title, HasSubstr("The container detector was killed"));
  EXPECT_THAT(findings[0].title, HasSubstr("its limit was 512.0 MiB"));
  EXPECT_EQ(findings[0].cures.at(0).command, "docker update --memory=640m --memory-swap=1280m detector");
  EXPECT_EQ(findings[0].times, 1);
  Lines with_swap = kInspected;
  with_swap.emplace_back("            \"MemorySwap\": 536870912,");
  EXPECT_EQ(findings_of(with_swap).at(0).cures.at(0).command,
            "docker update --memory=640m --memory-swap=640m detector");
  const auto line = findings_of(
      {R"([{"State":{"OOMKilled":true},"Name":"/a b;c","HostConfig":{"Memory":536870912,"MemorySwap":-1}}])"});
  EXPECT_EQ(line.at(0).cures.at(0).command, "docker update --memory=640m --memory-swap=1280m a");
}

TEST(LogContainers, KeepsFiguresOfContainersApart) {
  Lines two = kInspected;
  two.back() = "            \"Memory\": 0,";
  two.insert(two.end(), {"            \"OOMKilled\": false,", "        \"Name\": \"/nav\",",
                         "            \"Memory\": 1073741824,"});
  const auto findings = findings_of(two);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(text_of(findings[0], "container"), "detector");
  EXPECT_EQ(figure(findings[0], "limit_bytes"), -1) << "it has none";
  // No container was killed.
  EXPECT_TRUE(
      findings_of({"\"OOMKilled\": false,", "\"Name\": \"/nav\",", "\"Memory\": 1073741824,"}).empty());
  EXPECT_TRUE(findings_of({"{\"Name\": \"/usr\", \"Memory\": 12}"}).empty());
}

TEST(LogContainers, ReadsPodAndLimitFromKubectlDescribe) {
  const Lines described{"Name:             detector-7d9f8c-abcde",
                        "Namespace:        robots",
                        "    Container ID:  containerd://4f2a",
                        "    State:          Running",
                        "    Last State:     Terminated",
                        "      Reason:       OOMKilled",
                        "      Exit Code:    137",
                        "    Limits:",
                        "      memory:  512Mi",
                        "    Requests:",
                        "      memory:  256Mi"};
  const auto findings = findings_of(described);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(figure(findings[0], "limit_bytes"), 536870912);
  EXPECT_EQ(findings[0].cures.at(0).command,
            "kubectl set resources deployment NAME --namespace robots -c CONTAINER --limits=memory=640Mi");
  EXPECT_THAT(commands_of(findings[0]),
              Contains("kubectl describe pod --namespace robots detector-7d9f8c-abcde"));
  // Neither the container's request nor the limit of another container counts as its limit.
  Lines requests = described;
  requests.erase(requests.begin() + 7, requests.begin() + 9);
  EXPECT_EQ(figure(findings_of(requests).at(0), "limit_bytes"), -1);
  EXPECT_EQ(figure(findings_of({"      Reason:       OOMKilled", "    Container ID:  containerd://5",
                                "      memory:  1Gi"})
                       .at(0),
                   "limit_bytes"),
            -1);
  EXPECT_TRUE(findings_of({"    Limits:", "      memory:  512Mi", "Name:             x"}).empty());
}

TEST(LogContainers, ReadsKillsReportedByRuntimes) {
  const auto told = [](const std::string& line) {
    const auto findings = findings_of({line});
    return findings.size() == 1 && findings[0].severity == Severity::severe
               ? text_of(findings[0], "who") + " " + text_of(findings[0], "container")
               : "-";
  };
  EXPECT_EQ(
      told("docker: Error response from daemon: failed to create task for container: failed to create shim "
           "task: "
           "OCI runtime create failed: runc create failed: unable to start container process: container init "
           "was OOM-killed (memory limit too low?): unknown."),
      "runc ");
  EXPECT_EQ(told("time=\"2026-03-02T10:00:00Z\" level=info msg=\"TaskOOM event "
                 "&TaskOOM{ContainerID:4f2a9c,XXX_unrecognized:[],}\""),
            "containerd 4f2a9c");
  EXPECT_EQ(
      told("time=\"x\" level=info msg=\"TaskOOM event container_id:\\\"" + std::string(64, 'a') + "\\\"\""),
      "containerd aaaaaaaaaaaa");
  EXPECT_EQ(told("conmon 1234abcd <ninfo>: OOM event received"), "conmon 1234abcd");
  EXPECT_EQ(told("Mar 02 10:00:00 pc conmon[812]: conmon 1234abcd <ninfo>: OOM received"), "conmon 1234abcd");
  EXPECT_EQ(told("Terminated  Exit Code: 137, Exit Message: \"OOM Killed\""), "Nomad ");
  EXPECT_EQ(told("container oom 4f2a9c (image=perception:latest, name=perception)"), "Docker perception");
  EXPECT_EQ(
      told("I0302 10:00:00.0 1 eviction_manager.go:366] \"Eviction manager: must evict pod(s) to reclaim\" "
           "resourceName=\"memory\""),
      "Kubernetes ");
  for (const char* other :
       {"conmon 1234abcd <ninfo>: container 1 exited with status 0", "conmon 12 <ninfo>: OOM control fd: 7",
        "Exit Code: 0, Exit Message: \"\"", "Subscribed to TaskOOM events",
        "msg=\"TaskExit event container_id:4f\"",
        "\"Eviction manager: must evict pod(s) to reclaim\" resourceName=\"ephemeral-storage\"",
        "Requests:", "Container ID: x", "memory:  12Gi"})
    EXPECT_EQ(told(other), "-") << other;
}

TEST(LogContainers, ReadsKillsReportedByRay) {
  const Lines lines{
      "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
      "Memory on the node (IP: 10.0.0.1, ID: abc) where the task (task ID: x, name=f, pid=1234, memory "
      "used=1.23GB) was running was 7.20GB / 7.60GB (0.947368), which exceeds the memory usage "
      "threshold of 0.95. Ray killed this worker (ID: y) because of the memory usage of the worker."};
  const auto findings = findings_of(lines);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "process-killed-for-memory");
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_EQ(findings[0].title, "Ray killed the task f: the node 10.0.0.1 ran low on memory");
  EXPECT_EQ(figure(findings[0], "pid"), 1234);
  EXPECT_EQ(figure(findings[0], "resident_bytes"), 1320702444);
  EXPECT_EQ(figure(findings[0], "used_bytes"), 7730941133);
  EXPECT_EQ(figure(findings[0], "total_bytes"), 8160437862);
  EXPECT_THAT(findings[0].cause, HasSubstr("the share of 0.95 that Ray allows"));
  const std::string raylet =
      " Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons "
      "at node";
  EXPECT_EQ(findings_of({"(raylet) 2" + raylet}).size(), 1U);
  EXPECT_TRUE(findings_of({"(raylet) 0" + raylet}).empty());
}

TEST(LogContainers, ReportsSlurmLimitOnce) {
  const Lines lines{
      "slurmstepd: error: Job 1234 exceeded memory limit (4194504 > 4194304), being killed",
      "slurmstepd: error: Exceeded job memory limit",
      "slurmstepd: error: *** JOB 1234 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO MEMORY LIMIT ***",
      "slurmstepd: error: Exceeded job memory limit at some point."};
  const auto findings = findings_of(lines);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_EQ(figure(findings[0], "limit_bytes"), 4194304LL * 1024);
  EXPECT_EQ(figure(findings[0], "resident_bytes"), 4194504LL * 1024);
  EXPECT_THAT(commands_of(findings[0]), Contains("sacct -j 1234 --format=JobID,MaxRSS,ReqMem"));
  EXPECT_THAT(commands_of(findings[0]), Contains("sbatch --mem=5120M SCRIPT"));
  EXPECT_EQ(findings_of({lines[2]}).at(0).severity, Severity::severe);
  // Slurm counts the page cache, and this line does not say whether a process was killed.
  EXPECT_EQ(findings_of({lines[3]}).at(0).severity, Severity::warning);
  EXPECT_EQ(
      findings_of({"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup.", lines[3]})
          .size(),
      1U);
  EXPECT_TRUE(
      findings_of(
          {"slurmstepd: error: *** JOB 1234 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***"})
          .empty());
}

TEST(LogContainers, ReadsKillsReportedBySupervisors) {
  const auto told = [](const std::string& line) {
    const auto findings = findings_of({line});
    return findings.size() == 1 && findings[0].id == "process-killed" ? text_of(findings[0], "command") : "-";
  };
  EXPECT_EQ(told("2026-03-02 10:00:00,000 INFO exited: detector (terminated by SIGKILL; not expected)"),
            "detector");
  EXPECT_EQ(told("2026-03-02 10:00:00,000 WARN exited: det (exit status 137; not expected)"), "det");
  EXPECT_EQ(told("ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 "
                 "(pid: 812) of "
                 "binary: /usr/bin/python3"),
            "a worker of torchrun");
  EXPECT_EQ(
      told("2026-03-02 10:00:00 UTC [1] LOG:  server process (PID 812) was terminated by signal 9: Killed"),
      "a process of PostgreSQL");
  EXPECT_EQ(
      told("billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 0."),
      "a worker of Celery");
  EXPECT_EQ(told("The exit codes of the workers are {SIGKILL(-9)}"), "a worker of joblib");
  EXPECT_EQ(told("The command '/bin/sh -c make -j8' returned a non-zero code: 137"), "/bin/sh -c make -j8");
  EXPECT_EQ(told("ERROR: process \"/bin/sh -c make\" did not complete successfully: exit code: 137"),
            "/bin/sh -c make");
  EXPECT_EQ(told("make: *** [Makefile:2: all] Killed"), "a command of make");
  EXPECT_EQ(told("make[1]: *** [Makefile:2: all] Error 137"), "a command of make");
  EXPECT_EQ(told("fish: Job 1, 'python3 main.py' terminated by signal SIGKILL (Forced quit)"),
            "python3 main.py");
  for (const char* other :
       {"2026-03-02 10:00:00,000 INFO stopped: detector (terminated by SIGKILL)",
        "2026-03-02 10:00:00,000 WARN killing 'detector' (22) with SIGKILL",
        "2026-03-02 10:00:00,000 INFO exited: detector (terminated by SIGTERM; not expected)",
        "2026-03-02 10:00:00,000 INFO exited: detector (exit status 0; expected)",
        "api:failed (exitcode: 1) local_rank: 0 (pid: 812) of binary: python3",
        "LOG:  server process (PID 812) was terminated by signal 11: Segmentation fault",
        "Worker exited prematurely: signal 15 (SIGTERM) Job: 0.",
        "The exit codes of the workers are {SIGSEGV(-11)}",
        "The command '/bin/sh -c make' returned a non-zero code: 1",
        "ERROR: process \"make\" did not complete successfully: exit code: 2",
        "make: *** [Makefile:2: all] Error 2",
        "fish: Job 1, 'python3' terminated by signal SIGSEGV (Address boundary error)"})
    EXPECT_EQ(told(other), "-") << other;
  // Two lines about one worker, and a kill that the kernel also reports.
  EXPECT_EQ(findings_of({"failed (exitcode: -9) local_rank: 0 (pid: 812) of binary: python3",
                         "  traceback : Signal 9 (SIGKILL) received by PID 812"})
                .at(0)
                .times,
            1);
  EXPECT_EQ(
      findings_of(
          {"Out of memory: Killed process 812 (postgres) total-vm:4000kB, anon-rss:2500kB, file-rss:1kB",
           "LOG:  server process (PID 812) was terminated by signal 9: Killed"})
          .size(),
      1U);
}

}  // namespace
}  // namespace headroom::test
