// Cures of kills: they name the killed container or unit, and act on something that still exists.
#include <fmt/format.h>

#include "doctor/log/rules.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// "pod/namespace/container" of each finding.
Lines names_in(const std::vector<Finding>& findings) {
  Lines names;
  for (const Finding& finding : findings)
    names.push_back(fmt::format("{}/{}/{}", text_figure(finding, "pod"), text_figure(finding, "namespace"),
                                text_figure(finding, "container")));
  return names;
}

Lines joined(const std::vector<Lines>& parts) {
  Lines all;
  for (const Lines& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const Lines kHead{"Name:             pipeline-0", "Namespace:        robots", "Containers:"};
const Lines kCamera{"  camera:",
                    "    State:          Running",
                    "    Ready:          True",
                    "    Limits:",
                    "      memory:  2Gi",
                    "    Environment:",
                    "      RATE:  30",
                    "    Mounts:                  <none>"};

Lines killed_container(const std::string& name, const std::string& limit) {
  return {fmt::format("  {}:", name),
          "    State:          Waiting",
          "      Reason:       CrashLoopBackOff",
          "    Last State:     Terminated",
          "      Reason:       OOMKilled",
          "      Exit Code:    137",
          "    Ready:          False",
          "    Limits:",
          "      memory:  " + limit};
}

TEST(LogKillCures, RaisesLimitOfKilledContainerOnly) {
  const auto findings = findings_of(joined({kHead, kCamera, killed_container("detector", "512Mi")}));
  ASSERT_EQ(findings.size(), 1U);
  const Finding& finding = findings[0];
  EXPECT_THAT(finding.title, HasSubstr("The container detector of the pod pipeline-0 was killed"));
  EXPECT_THAT(finding.title, HasSubstr("its limit was 512.0 MiB"));
  EXPECT_EQ(finding.evidence.at(0).text, "Reason:       OOMKilled");
  EXPECT_EQ(finding.evidence.at(1).text, "Exit Code:    137");
  EXPECT_EQ(finding.cures.at(0).command,
            "kubectl set resources deployment NAME --namespace robots -c detector --limits=memory=640Mi");
  EXPECT_THAT(commands_of(finding), Contains("kubectl describe pod --namespace robots pipeline-0"));
}

TEST(LogKillCures, SeparatesContainersOfAPod) {
  const auto findings = findings_of(
      joined({kHead, killed_container("detector", "512Mi"), kCamera, killed_container("detector2", "1Gi")}));
  EXPECT_EQ(names_in(findings), (Lines{"pipeline-0/robots/detector", "pipeline-0/robots/detector2"}));
  EXPECT_EQ(figure(findings.at(0), "limit_bytes"), 512LL << 20);
  EXPECT_EQ(figure(findings.at(1), "limit_bytes"), 1LL << 30);
  // Two pods in different namespaces.
  const Lines other{"Name:             nav-0", "Namespace:        default", "Containers:"};
  EXPECT_EQ(names_in(findings_of(joined({kHead, killed_container("detector", "512Mi"), other,
                                         killed_container("detector", "512Mi")}))),
            (Lines{"pipeline-0/robots/detector", "nav-0/default/detector"}));
}

TEST(LogKillCures, JoinsRowWithDescriptionOfItsPod) {
  const std::string row = "pipeline-0   1/2     OOMKilled   3 (25s ago)   2m";
  const Lines told = joined({kHead, kCamera, killed_container("detector", "512Mi")});
  for (const Lines& lines : {joined({{row}, told}), joined({told, {row}})}) {
    const auto findings = findings_of(lines);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(text_figure(findings[0], "container"), "detector");
  }
  EXPECT_EQ(findings_of({"det-1   0/1   OOMKilled   3   2m", "det-10   0/1   OOMKilled   3   2m"}).size(),
            2U);
}

// As kubectl prints a pod: the keys are sorted.
Lines pod_in_json(const std::string& pod, const Lines& statuses) {
  return joined({{"    \"apiVersion\": \"v1\",", "    \"kind\": \"Pod\",", "    \"metadata\": {",
                  "        \"labels\": {", "            \"name\": \"a-label\"", "        },",
                  "        \"name\": \"" + pod + "\",", "        \"namespace\": \"robots\",",
                  "        \"uid\": \"4f2a\"", "    },", "    \"spec\": {", "        \"containers\": [",
                  "            {", "                \"name\": \"of-spec\",", "            }", "        ]",
                  "    },", "    \"status\": {", "        \"containerStatuses\": ["},
                 statuses,
                 {"        ]", "    }"}});
}
const Lines kDied{"\"terminated\": {",
                  "    \"containerID\": \"containerd://4f2a\",",
                  "    \"exitCode\": 137,",
                  "    \"finishedAt\": \"2026-03-04T09:01:00Z\",",
                  "    \"reason\": \"OOMKilled\",",
                  "    \"startedAt\": \"2026-03-04T09:00:00Z\"",
                  "}"};
Lines status_in_json(const std::string& name, const Lines& last, const Lines& present) {
  return joined(
      {{"{", "\"containerID\": \"containerd://4f2a\",", "\"image\": \"x\",", "\"lastState\": {"},
       last,
       {"},", "\"name\": \"" + name + "\",", "\"ready\": false,", "\"restartCount\": 3,", "\"state\": {"},
       present,
       {"},", "\"volumeMounts\": [", "{", "\"name\": \"a-volume\",", "}", "]", "},"}});
}

TEST(LogKillCures, ReadsPodAndContainerFromJson) {
  const Lines camera = status_in_json("camera", {}, {"\"running\": {", "}"}),
              detector = status_in_json("detector", kDied, {}), ended = status_in_json("detector", {}, kDied);
  for (const Lines& statuses : {joined({camera, detector}), joined({detector, camera}),
                                joined({camera, ended}), joined({ended, camera})}) {
    const auto findings = findings_of(pod_in_json("det-0", statuses));
    EXPECT_EQ(names_in(findings), Lines{"det-0/robots/detector"});
    EXPECT_EQ(findings.at(0).evidence.at(0).text, "\"reason\": \"OOMKilled\",");
    EXPECT_THAT(commands_of(findings[0]), Contains("kubectl describe pod --namespace robots det-0"));
  }
  EXPECT_EQ(names_in(findings_of(
                joined({pod_in_json("det-0", detector), pod_in_json("det-1", joined({camera, ended}))}))),
            (Lines{"det-0/robots/detector", "det-1/robots/detector"}));
  // A short form with another order of the keys.
  EXPECT_EQ(names_in(findings_of({"  \"kind\": \"Pod\",",
                                  "  \"metadata\": { \"name\": \"det-0\", \"namespace\": \"robots\" },",
                                  "    \"containerStatuses\": [", "      {", "        \"name\": \"det\",",
                                  "        \"lastState\": {", "            \"exitCode\": 137,",
                                  "            \"reason\": \"OOMKilled\","})),
            Lines{"det-0/robots/det"});
}

TEST(LogKillCures, ReadsPodAndContainerFromYaml) {
  const Lines head{"apiVersion: v1",      "kind: Pod", "metadata:",           "  name: det-0",
                   "  namespace: robots", "spec:",     "  containers:",       "  - image: x",
                   "    name: of-spec",   "status:",   "  containerStatuses:"};
  const Lines camera{"  - containerID: containerd://1",
                     "    lastState: {}",
                     "    name: camera",
                     "    ready: true",
                     "    state:",
                     "      running:"};
  const Lines detector{"  - containerID: containerd://2",
                       "    lastState:",
                       "      terminated:",
                       "        exitCode: 137",
                       "        finishedAt: x",
                       "        reason: OOMKilled",
                       "        startedAt: x",
                       "    name: detector",
                       "    ready: true"};
  for (const Lines& statuses : {joined({camera, detector}), joined({detector, camera})})
    EXPECT_EQ(names_in(findings_of(joined({head, statuses}))), Lines{"det-0/robots/detector"});
}

// Names alone are not a finding. A kill far from a name, or in another file, has no name.
TEST(LogKillCures, NamesAloneAreNotAFinding) {
  const Lines camera = status_in_json("camera", {}, {});
  EXPECT_TRUE(findings_of(pod_in_json("det-0", camera)).empty());
  EXPECT_TRUE(findings_of(joined({kHead, kCamera})).empty());
  Lines far = joined({kHead, kCamera});
  far.insert(far.end(), 300, "a line");
  EXPECT_EQ(text_figure(findings_of(joined({far, {"reason=OOMKilled"}})).at(0), "container"), "");
  doctor::LogFindings logs;
  std::int64_t number = 0;
  for (const std::string& line : joined({kHead, kCamera})) logs.read_line("one", ++number, line);
  logs.end_file();
  logs.read_line("other", 1, "reason=OOMKilled");
  EXPECT_EQ(names_in(logs.findings()), Lines{"//"});
}

TEST(LogKillCures, EvictionNamesContainer) {
  const std::string low =
      "The node was low on resource: memory. Threshold quantity: 100Mi, available: 92112Ki. Container "
      "detector was using 3012340Ki, request is 0, has larger consumption of memory. Container sidecar was "
      "using 10000Ki, request is 64Mi, has larger consumption of memory.";
  const auto command = [](const Lines& lines) { return findings_of(lines).at(0).cures.at(0).command; };
  EXPECT_EQ(command({"Warning  Evicted  12s  kubelet  " + low}),
            "kubectl set resources deployment NAME -c detector --requests=memory=3677Mi");
  EXPECT_EQ(command({"robots   5m   Warning   Evicted   pod/det-0   " + low}),
            "kubectl set resources deployment NAME --namespace robots -c detector --requests=memory=3677Mi");
  EXPECT_EQ(command(joined({kHead, {"Message:          " + low}})),
            "kubectl set resources deployment NAME --namespace robots -c detector --requests=memory=3677Mi");
  EXPECT_THAT(findings_of({"5m   Warning   Evicted   pod/det-0   " + low}).at(0).title,
              HasSubstr("evicted the pod det-0 (container detector)"));
}

// One gauge per reason, with the value 1 for the actual reason. log_prose.cpp must let the line pass.
TEST(LogKillCures, ReadsContainerFromGaugeLabels) {
  const doctor::LogRule rule = doctor::kubernetes_kill_rule();
  const auto read = [&](const std::string& line) { return rule.read(line); };
  const std::string gauge =
      "kube_pod_container_status_last_terminated_reason{namespace=\"robots\",pod=\"det-0\",uid=\"4f\","
      "container=\"detector\",reason=\"OOMKilled\"} ";
  const auto message = read(gauge + "1");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->text("pod"), "det-0");
  EXPECT_EQ(message->text("namespace"), "robots");
  EXPECT_EQ(message->text("container"), "detector");
  EXPECT_TRUE(read(gauge + "1 1712345678000"));
  for (const char* other : {"0", "0 1712345678000", "== 1", "10", ""})
    EXPECT_FALSE(read(gauge + other)) << other;
  EXPECT_EQ(findings_of({gauge + "1"}).size(), 1U);
  EXPECT_TRUE(findings_of({gauge + "0"}).empty());
}

const std::string kSizes =
    "Killed process 19877 (tritonserver) total-vm:9123400kB, anon-rss:2087132kB, file-rss:0kB";

TEST(LogKillCures, SeparatesUnitsFromContainers) {
  const auto cures_of = [](const std::string& group) {
    return commands_of(
        findings_of({"systemd-oomd[1]: Killed " + group + " due to memory pressure for /user.slice"}).at(0));
  };
  const std::string podman = "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" +
                             std::string(64, 'a') + ".scope/container";
  EXPECT_THAT(cures_of(podman), Contains(HasSubstr("podman update")));
  EXPECT_THAT(cures_of(podman), Each(Not(HasSubstr("set-property container"))));
  EXPECT_THAT(cures_of("/user.slice/crio-wipe.service"), Each(Not(HasSubstr("kubectl"))));
  EXPECT_THAT(cures_of("/user.slice/user-1000.slice/user@1000.service/init.scope"),
              Each(Not(HasSubstr("systemd-run"))));
}

TEST(LogKillCures, ReadsKubernetesNodeEvents) {
  const auto full =
      findings_of({"2m11s  Warning  OOMKilling  node/edge-07  Memory cgroup out of memory: " + kSizes});
  ASSERT_EQ(full.size(), 1U);
  EXPECT_EQ(full[0].id, "cgroup-oom-kill");
  EXPECT_THAT(
      commands_of(full[0]),
      testing::IsSupersetOf({"kubectl set resources deployment NAME -c CONTAINER --limits=memory=SIZE",
                             "kubectl get pods --all-namespaces --field-selector spec.nodeName=edge-07"}));
  const auto machine = findings_of(
      {"Events:[{Severity:warn Timestamp:x Reason:OOMKilling Message:Out of memory: " + kSizes + "}]"});
  ASSERT_EQ(machine.size(), 1U);
  EXPECT_EQ(machine[0].id, "kernel-oom-kill");
  EXPECT_THAT(commands_of(machine[0]),
              Contains("kubectl get pods --all-namespaces --field-selector spec.nodeName=NODE"));
  for (const auto& findings : {full, machine})
    for (const char* word : {"docker", "systemctl", "headroom run"})
      EXPECT_THAT(commands_of(findings[0]), Each(Not(HasSubstr(word))));
  EXPECT_THAT(commands_of(findings_of({"Memory cgroup out of memory: " + kSizes}).at(0)),
              Each(Not(HasSubstr("kubectl"))));
}

std::string raised(const std::string& group) {
  const auto findings = findings_of(
      {"python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
       "memory: usage 524288kB, limit 524288kB, failcnt 12",
       fmt::format(
           "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={},"
           "task_memcg={},task=python3,pid=77,uid=0",
           group, group),
       "Memory cgroup out of memory: Killed process 77 (python3) total-vm:1649320kB, anon-rss:521216kB"});
  return findings.at(0).cures.at(1).command;
}

// A scope ends with its processes, and the next scope has another name.
TEST(LogKillCures, RestartsTransientUnitWithLimit) {
  const std::string slice = "/user.slice/user-1000.slice", user = slice + "/user@1000.service/app.slice",
                    id(64, 'a');
  const std::pair<std::string, std::string> kGroups[] = {
      {user + "/run-r8a1.scope", "systemd-run --user --scope -p MemoryMax=640M COMMAND"},
      {user + "/app-vision-42.scope", "systemd-run --user --scope -p MemoryMax=640M COMMAND"},
      {user + "/run-u3.service", "systemd-run --user -p MemoryMax=640M COMMAND"},
      {"/system.slice/run-1812.scope", "sudo systemd-run --scope -p MemoryMax=640M COMMAND"},
      {slice + "/session-2.scope", "sudo systemctl set-property user-1000.slice MemoryMax=640M"},
      {"/machine.slice/libpod-" + id + ".scope", "sudo podman update --memory=640m aaaaaaaaaaaa"},
      {"/machine.slice/libpod-" + id + ".scope/container", "sudo podman update --memory=640m aaaaaaaaaaaa"},
      {user + "/libpod-" + id + ".scope/container", "podman update --memory=640m aaaaaaaaaaaa"},
      {"/system.slice/runner.service", "sudo systemctl set-property runner.service MemoryMax=640M"}};
  for (const auto& [group, command] : kGroups) EXPECT_EQ(raised(group), command) << group;
}

TEST(LogKillCures, SetsOomdPreferenceOfExistingUnit) {
  const auto cure = [](const std::string& group) {
    return findings_of({"systemd-oomd[5]: Killed " + group +
                        " due to memory pressure for /x being 62.10% > 50.00% for > 20s"})
        .at(0)
        .cures.at(1)
        .command;
  };
  const std::string slice = "/user.slice/user-1000.slice", user = slice + "/user@1000.service/app.slice",
                    id(64, 'a');
  EXPECT_EQ(cure(user + "/vte-spawn-2.scope"),
            "systemd-run --user --scope -p ManagedOOMPreference=avoid COMMAND");
  EXPECT_EQ(cure(slice + "/session-2.scope"),
            "sudo systemd-run --scope --uid=$USER -p ManagedOOMPreference=avoid COMMAND");
  EXPECT_EQ(cure("/system.slice/det.service"),
            "sudo systemctl set-property det.service ManagedOOMPreference=avoid");
  EXPECT_EQ(cure("/machine.slice/libpod-" + id + ".scope"), "sudo podman update --memory=SIZE aaaaaaaaaaaa");
  EXPECT_EQ(cure("/system.slice/docker-" + id + ".scope"),
            "docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP aaaaaaaaaaaa");
  // systemd's line has no path. Scopes of a desktop belong to a user.
  EXPECT_EQ(
      findings_of({"systemd[1331]: vte-spawn-2.scope: systemd-oomd killed 14 process(es) in this unit."})
          .at(0)
          .cures.at(1)
          .command,
      "systemd-run --user --scope -p ManagedOOMPreference=avoid COMMAND");
}

}  // namespace
}  // namespace headroom::test
