// Cures of kills: they name the killed container or unit, and act on something that still exists.
#include <fmt/format.h>

#include "doctor/log/log_rule.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

TEST(LogKillCures, EvictionNamesContainer) {
  const std::string low =
      "The node was low on resource: memory. Threshold quantity: 100Mi, available: 92112Ki. Container "
      "detector was using 3012340Ki, request is 0, has larger consumption of memory. Container sidecar was "
      "using 10000Ki, request is 64Mi, has larger consumption of memory.";
  const auto command = [](const Lines& lines) { return findings_of(lines).at(0).cures.at(0).command; };
  EXPECT_EQ(command({"Warning  Evicted  12s  kubelet  " + low}),
            "kubectl set resources deployment NAME -c detector --requests=memory=3678Mi");
  EXPECT_EQ(command({"robots   5m   Warning   Evicted   pod/det-0   " + low}),
            "kubectl set resources deployment NAME --namespace robots -c detector --requests=memory=3678Mi");
  EXPECT_EQ(command({"Name:             pipeline-0", "Namespace:        robots", "Message:          " + low}),
            "kubectl set resources deployment NAME --namespace robots -c detector --requests=memory=3678Mi");
  EXPECT_THAT(findings_of({"5m   Warning   Evicted   pod/det-0   " + low}).at(0).title,
              HasSubstr("evicted the pod det-0 (container detector)"));
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
       fmt::format("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/"
                   ",mems_allowed=0,oom_memcg={},task_memcg={},task=python3,pid=77,uid=0",
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
      {slice + "/session-2.scope", "sudo systemd-run --scope --uid=$USER -p MemoryMax=640M COMMAND"},
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
