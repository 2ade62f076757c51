// The last line of headroom doctor: a cure that can be run as it is, or another command if no cure can.
#include "doctor/cure_commands.h"

#include "support/test_support.h"

namespace headroom::test {
namespace {

std::string next_of(const std::string& command, Severity severity = Severity::severe) {
  Finding finding;
  finding.severity = severity;
  finding.cures = {{"a cure", command, {}}};
  report::DoctorReport report;
  report.inputs = {"run.log"};
  report.findings = {finding};
  return doctor::next_command(report);
}

TEST(NextCommand, IsACompleteCure) {
  for (const std::string command :
       {"docker update --memory=1280m --memory-swap=2304m 8f3ab1c2d4e5",
        "sudo systemctl set-property detector.service MemoryMax=3000M",
        "sudo systemctl set-property app.scope ManagedOOMPreference=avoid",
        "echo 1M | sudo tee /sys/fs/cgroup/foo/memory.max",
        "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches", "sudo sysctl vm.min_free_kbytes=262144",
        "journalctl -k | headroom doctor -", "kubectl describe pod detector-0",
        "nvidia-smi --query-compute-apps=pid,used_memory --format=csv",
        "sudo usermod -aG video,render $USER"})
    EXPECT_EQ(next_of(command), command);
  EXPECT_EQ(next_of("docker update --memory=1g 8f3ab1c2d4e5", Severity::warning),
            "docker update --memory=1g 8f3ab1c2d4e5");
  EXPECT_EQ(next_of("docker update --memory=1g 8f3ab1c2d4e5", Severity::note), "");
  EXPECT_EQ(next_of("headroom report a.hrec", Severity::note), "headroom report a.hrec") << "it only looks";
}

TEST(NextCommand, IsNotACureWithPlaceholders) {
  for (const std::string command :
       {"docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP 8f3ab1c2d4e5",
        "docker update --memory=1280m --memory-swap=2304m CONTAINER", "docker run --shm-size=1g …",
        "sudo systemctl set-property detector.service MemoryMax=SIZE",
        "echo SIZE | sudo tee /sys/fs/cgroup/foo/memory.max",
        "kubectl set resources deployment NAME --limits=memory=2Gi", "headroom run --limit 78MiB -- COMMAND",
        "headroom bench --model NAME=model.onnx", "headroom bench --tune",
        "sudo headroom bench --mem-limit 128MiB", "model.half()", "--max-model-len 16384"})
    EXPECT_EQ(next_of(command), "") << command;
}

TEST(NextCommand, IsNotADestructiveCure) {
  for (const std::string command :
       {"kill 4242", "sudo systemctl isolate multi-user.target", "sudo systemctl stop gdm",
        "docker stop 8f3ab1c2d4e5", "kubectl delete pod detector-0", "headroom run -- rm -rf outputs",
        "echo 1 | sudo tee '/sys/fs/cgroup/a; rm -rf ~;#/b/memory.max'",
        "sudo fallocate -l 4G /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile"})
    EXPECT_EQ(next_of(command), "") << command;
}

TEST(NextCommand, IsOfWorstFindingWithACommand) {
  report::DoctorReport report;
  report.inputs = {"run.log"};
  Finding severe, warning;
  severe.severity = Severity::severe;
  severe.cures = {{"first", "docker update --memory=SIZE c", {}},
                  {"second", "dmesg | headroom doctor -", {}}};
  warning.severity = Severity::warning;
  warning.cures = {{"third", "headroom top", {}}};
  report.findings = {severe, warning};
  EXPECT_EQ(doctor::next_command(report), "dmesg | headroom doctor -");
  report.findings[0].cures.pop_back();
  EXPECT_EQ(doctor::next_command(report), "headroom top");
}

TEST(NextCommand, IsTheReportOfTheOnlyInputWithoutACure) {
  report::DoctorReport report;
  report.inputs = {"a b.hrec"};
  report.examined = {{"a b.hrec", "recording", "a recording"}};
  EXPECT_EQ(doctor::next_command(report), "headroom report 'a b.hrec'");
  report.examined.front().kind = "log";
  EXPECT_EQ(doctor::next_command(report), "");
  report.inputs = {"run/"};
  report.examined = {{"run/", "run", "a run that ended early"}, {"run/run.log", "log", "a log"}};
  EXPECT_EQ(doctor::next_command(report), "");
  report.inputs = {"--live"};
  EXPECT_EQ(doctor::next_command(report), "headroom watch --output watch.jsonl");
}

TEST(NextCommand, IsTheCureThatATrialConfirmed) {
  Finding finding;
  finding.severity = Severity::severe;
  finding.cures = {{"first", "headroom bench --model m=m.onnx,mapped=on", {}},
                   {"second", "headroom bench --model m=m.onnx,arena=off", {}}};
  for (Cure& cure : finding.cures) cure.settings = CureSettings{"m", "arena=off"};
  report::DoctorReport report;
  report.inputs = {"outputs/a run"};
  report.findings = {finding};
  EXPECT_EQ(doctor::next_command(report), finding.cures[0].command) << "no trial can be made of this input";
  report.can_try = true;
  EXPECT_EQ(doctor::next_command(report), "headroom doctor 'outputs/a run' --try");

  report.can_try = false;
  auto& cures = report.findings[0].cures;
  cures[0].tried = TriedCure{};
  cures[0].tried->verdict = CureVerdict::failed;
  EXPECT_EQ(doctor::next_command(report), cures[1].command);
  cures[1].tried = TriedCure{};
  for (const CureVerdict in_vain : {CureVerdict::failed, CureVerdict::worse, CureVerdict::no_difference}) {
    cures[1].tried->verdict = in_vain;
    EXPECT_EQ(doctor::next_command(report), "");
  }
  TriedCure together;
  together.command = "headroom bench --model m=m.onnx,mapped=on,arena=off";
  together.verdict = CureVerdict::helps;
  report.together = {together};
  EXPECT_EQ(doctor::next_command(report), together.command);
}

}  // namespace
}  // namespace headroom::test
