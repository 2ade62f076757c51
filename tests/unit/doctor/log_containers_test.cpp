// Kills that containers, schedulers and supervisors report: names, limits, and commands that work.
#include <fmt/format.h>

#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

const Lines kInspected{"        \"State\": {",
                       "            \"Status\": \"exited\",",
                       "            \"OOMKilled\": true,",
                       "            \"ExitCode\": 137,",
                       "        \"Name\": \"/detector\",",
                       "        \"HostConfig\": {",
                       "            \"Memory\": 536870912,"};

TEST(LogContainers, ReadsNameAndLimitFromDockerInspect) {
  const Finding finding = only_of(kInspected);
  EXPECT_EQ(text_figure(finding, "container"), "detector");
  EXPECT_EQ(figure(finding, "limit_bytes"), 536870912);
  EXPECT_THAT(finding.title, HasSubstr("The container detector was killed"));
  EXPECT_THAT(finding.title, HasSubstr("its limit was 512.0 MiB"));
  EXPECT_EQ(finding.cures.at(0).command, "docker update --memory=640m --memory-swap=1280m detector");
  Lines with_swap = kInspected;
  with_swap.emplace_back("            \"MemorySwap\": 536870912,");
  EXPECT_EQ(findings_of(with_swap).at(0).cures.at(0).command,
            "docker update --memory=640m --memory-swap=640m detector");
  const auto line = findings_of(
      {R"({"State":{"OOMKilled":true},"Name":"/a b;c","HostConfig":{"Memory":536870912,"MemorySwap":-1}})"});
  EXPECT_EQ(line.at(0).cures.at(0).command, "docker update --memory=640m --memory-swap=1280m 'a b;c'");
}

TEST(LogContainers, KeepsFiguresOfContainersApart) {
  Lines two = kInspected;
  two.back() = "            \"Memory\": 0,";
  two.insert(two.end(), {"            \"OOMKilled\": false,", "        \"Name\": \"/nav\",",
                         "            \"Memory\": 1073741824,"});
  const Finding finding = finding_in(two);
  EXPECT_EQ(text_figure(finding, "container"), "detector");
  EXPECT_EQ(figure(finding, "limit_bytes"), -1) << "it has none";
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
  const Finding finding = finding_in(described);
  EXPECT_EQ(figure(finding, "limit_bytes"), 536870912);
  EXPECT_EQ(finding.cures.at(0).command,
            "kubectl set resources deployment NAME --namespace robots -c CONTAINER --limits=memory=640Mi");
  EXPECT_THAT(commands_of(finding),
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

TEST(LogContainers, ReadsKillsReportedByRay) {
  const Lines lines{
      "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
      "Memory on the node (IP: 10.0.0.1, ID: abc) where the task (task ID: x, name=f, pid=1234, memory "
      "used=1.23GB) was running was 7.20GB / 7.60GB (0.947368), which exceeds the memory usage threshold of "
      "0.95. Ray killed this worker (ID: y) because of the memory usage of the worker."};
  const Finding finding = only_of(lines);
  EXPECT_EQ(finding.id, "process-killed-for-memory");
  EXPECT_EQ(finding.title, "Ray killed the task f: the node 10.0.0.1 ran low on memory");
  EXPECT_EQ(figure(finding, "pid"), 1234);
  EXPECT_EQ(figure(finding, "resident_bytes"), 1320702444);
  EXPECT_EQ(figure(finding, "used_bytes"), 7730941133);
  EXPECT_EQ(figure(finding, "total_bytes"), 8160437862);
  EXPECT_THAT(finding.cause, HasSubstr("the share of 0.95 that Ray allows"));
  const std::string raylet =
      " Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons "
      "at node";
  EXPECT_EQ(findings_of({"(raylet) 2" + raylet}).size(), 1U);
  EXPECT_TRUE(findings_of({"(raylet) 0" + raylet}).empty());
}

TEST(LogContainers, JoinsLinesAboutOneKilledWorker) {
  EXPECT_EQ(findings_of({"failed (exitcode: -9) local_rank: 0 (pid: 812) of binary: python3",
                         "  traceback : Signal 9 (SIGKILL) received by PID 812"})
                .at(0)
                .times,
            1);
  EXPECT_EQ(findings_of(
                {"Out of memory: Killed process 812 (python3) total-vm:4000kB, anon-rss:2500kB, file-rss:1kB",
                 "failed (exitcode: -9) local_rank: 0 (pid: 812) of binary: python3"})
                .size(),
            1U);
}

}  // namespace
}  // namespace headroom::test
