// Findings from many lines: kills in several lines, the kernel's long report, repeated messages.
#include "doctor/log/log_findings.h"

#include <fmt/format.h>

#include "base/text.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::LogFindings;
using testing::HasSubstr;
using testing::Not;

std::vector<Finding> findings_of_golden(const char* name) {
  LogFindings logs;
  EXPECT_TRUE(
      logs.read_file(std::filesystem::path(test::source_path("tests/golden/doctor")) / name).has_value());
  return logs.findings();
}

Lines lines_of(const std::string& text) {
  const auto lines = split(text, '\n');
  return {lines.begin(), lines.end()};
}

TEST(LogFindings, SeveralLinesOfOneKillCountOnce) {
  const Finding finding =
      only_of({"[   80.743300] Out of memory: Kill process 2700 (DeviceMemory) score 1 or sacrifice child",
               "[   80.751793] Killed process 2700 (DeviceMemory) total-vm:1838376kB, anon-rss:2632kB, "
               "file-rss:628kB"});
  EXPECT_EQ(finding.id, "kernel-oom-kill");
  EXPECT_EQ(finding.evidence.size(), 2U);
  EXPECT_EQ(figure(finding, "score"), 1);
  EXPECT_EQ(figure(finding, "anonymous_bytes"), 2632 * 1024);
  EXPECT_THAT(finding.cause, HasSubstr("held almost no memory"));
}

TEST(LogFindings, SecondLineOfGroupKillIsTheSameKill) {
  const auto findings =
      findings_of({"Memory cgroup out of memory: Kill process 7 (app) score 1000 or sacrifice child",
                   "Killed process 7 (app) total-vm:1000kB, anon-rss:900kB, file-rss:0kB",
                   "Out of memory: Killed process 8 (app) total-vm:1000kB, anon-rss:900kB, file-rss:0kB"});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "cgroup-oom-kill");
  EXPECT_EQ(figure(findings[0], "anonymous_bytes"), 900 * 1024);
  EXPECT_EQ(findings[1].id, "kernel-oom-kill");
}

// Kernels up to 5.2 kill a child of the chosen process, if it has one.
TEST(LogFindings, ChosenProcessWasNotKilledIfItsChildWas) {
  const Finding finding =
      only_of({"[   80.743300] Memory cgroup out of memory: Kill process 2700 (launcher) score 900 or "
               "sacrifice child",
               "[   80.751793] Killed process 2750 (detector) total-vm:1838376kB, anon-rss:926320kB, "
               "file-rss:628kB"});
  EXPECT_EQ(finding.id, "cgroup-oom-kill");
  EXPECT_THAT(finding.title, HasSubstr("killed detector (process 2750)"));
}

TEST(LogFindings, JoinsKillLinesAcrossLineOfOtherProgram) {
  const std::string summary =
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/system.slice/"
      "detector.service,task_memcg=/system.slice/detector.service,task=python3,pid=77,uid=0";
  const auto findings =
      findings_of({summary, "terminate called after throwing an instance of 'std::bad_alloc'",
                   "Memory cgroup out of memory: Killed process 77 (python3) total-vm:1000kB, anon-rss:900kB",
                   "systemd[1]: detector.service: A process of this unit has been killed by the OOM killer.",
                   "systemd[1]: detector.service: Failed with result 'oom-kill'."});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "cgroup-oom-kill");
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_EQ(figure(findings[0], "anonymous_bytes"), 900 * 1024);
  EXPECT_EQ(findings[1].id, "host-out-of-memory");
  EXPECT_EQ(findings[0].cures.at(1).command, "sudo systemctl set-property detector.service MemoryMax=SIZE");
}

TEST(LogFindings, CureUsesToolThatMadeTheGroup) {
  const std::string id(64, 'a');
  const std::pair<std::string, std::string> kCommands[] = {
      {"/docker/" + id, "docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP aaaaaaaaaaaa"},
      {"/system.slice/docker-" + id + ".scope",
       "docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP aaaaaaaaaaaa"},
      {"/kubepods/burstable/pod1/" + id,
       "kubectl set resources deployment NAME -c CONTAINER --limits=memory=SIZE"},
      {"/user.slice/user-1000.slice", "sudo systemctl set-property user-1000.slice MemoryMax=SIZE"},
      {"/robot/vision", "echo SIZE | sudo tee /sys/fs/cgroup/robot/vision/memory.max"}};
  for (const auto& [group, command] : kCommands) {
    const std::string kill =
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=" + group +
        ",task_memcg=" + group + ",task=python3,pid=77,uid=0";
    EXPECT_EQ(findings_of({kill}).at(0).cures.at(1).command, command) << group;
  }
}

// Constructed in the form of a 5.15 kernel's report, with figures of a Jetson of 8 GB.
TEST(LogFindings, ComputesUnaccountedMemoryFromKernelReport) {
  const auto findings = findings_of_golden("oom_machine.log");
  ASSERT_EQ(findings.size(), 1U);
  const Finding& finding = findings[0];
  constexpr std::int64_t kPage = 4096;
  EXPECT_EQ(figure(finding, "ram_bytes"), 2'000'000 * kPage);
  EXPECT_EQ(figure(finding, "processes"), 3);
  EXPECT_EQ(figure(finding, "processes_rss_bytes"), (480 + 131'979 + 262'011) * kPage);
  EXPECT_EQ(figure(finding, "largest_process_bytes"), 262'011 * kPage);
  EXPECT_EQ(figure(finding, "swap_bytes"), 0);
  // RAM − reserved − free − LRU − slab − page tables
  EXPECT_EQ(figure(finding, "unaccounted_bytes"),
            (2'000'000 - 50'000 - 13'000 - 101'000 - 301'000 - 400 - 600 - 1000 - 30'000 - 3000) * kPage);
  EXPECT_THAT(finding.cause, HasSubstr("belong to no process"));
  EXPECT_EQ(finding.confidence, Confidence::likely);
}

Finding finding_of_changed_report(const std::string& from, const std::string& to) {
  std::string text = read_text(test::source_path("tests/golden/doctor/oom_machine.log"));
  text.replace(text.find(from), from.size(), to);
  const auto findings = findings_of(lines_of(text));
  EXPECT_EQ(findings.size(), 1U) << to;
  return findings.at(0);
}

TEST(LogFindings, HugePagesAndZramAreNotUnaccounted) {
  const std::string before = "0 pages in swap cache", swap = "Total swap = 0kB";
  const auto unaccounted = [](const std::string& from, const std::string& to) {
    return figure(finding_of_changed_report(from, to), "unaccounted_bytes");
  };
  const auto all = unaccounted(before, before);
  EXPECT_EQ(
      unaccounted(before,
                  "Node 0 hugepages_total=512 hugepages_free=512 hugepages_surp=0 hugepages_size=2048kB"),
      all - (std::int64_t{1} << 30));
  EXPECT_EQ(unaccounted(swap, "Total swap = 1048576kB"), all - (std::int64_t{1} << 30));
  EXPECT_EQ(unaccounted("kernel_misc_reclaimable:0", "app: pool free:999999999 used:12"), all)
      << "a program's line between";
  // The report does not say how much of the used swap is in zram.
  const Finding full = finding_of_changed_report(swap, "Total swap = 8388608kB");
  EXPECT_EQ(figure(full, "unaccounted_bytes"), -1);
  EXPECT_THAT(full.cause,
              testing::AllOf(HasSubstr("All processes together needed more memory than the machine has. "),
                             HasSubstr("Up to 5.72 GiB of 7.63 GiB belong to no process: devices such as the "
                                       "GPU hold it, or zram, which keeps swap in RAM.")));
}

// From a mail of the kernel developers.
TEST(LogFindings, ReadsLimitFromControlGroupReport) {
  const auto findings = findings_of_golden("oom_group.log");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "cgroup-oom-kill");
  EXPECT_EQ(figure(findings[0], "limit_bytes"), 1024 * 1024);
  EXPECT_EQ(figure(findings[0], "processes"), 3);
  EXPECT_EQ(figure(findings[0], "processes_rss_bytes"), (884 + 246 + 56) * 4096);
  EXPECT_EQ(findings[0].cures[1].command, "echo 1M | sudo tee /sys/fs/cgroup/foo/memory.max");
  EXPECT_EQ(figure(findings[0], "unaccounted_bytes"), -1);
  // 56349 pages in swap; the resident memory was 0.
  EXPECT_EQ(figure(findings[0], "victim_swap_bytes"), 56'349 * 4096);
  EXPECT_THAT(findings[0].cause, HasSubstr("The victim held 220.1 MiB more in swap"));
}

// The columns differ from kernel to kernel: 3.10, 5.15 and 6.8.
TEST(LogFindings, ReportsSwapOfVictim) {
  const auto findings_with = [](const std::string& head, const std::string& victim,
                                const std::string& other) {
    return findings_of({"yolo_node invoked oom-killer: gfp_mask=0x140dca, order=0, oom_score_adj=0", head,
                        other, victim,
                        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/"
                        ",mems_allowed=0,global_oom,task_memcg=/user.slice,task=yolo_node,pid=2345,uid=1000",
                        "Out of memory: Killed process 2345 (yolo_node) total-vm:12000000kB, "
                        "anon-rss:590000kB, file-rss:10000kB, shmem-rss:0kB"});
  };
  struct Kernel {
    std::string head, victim, other;
  };
  const Kernel kKernels[] = {
      {"[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
       "[ 2345]  1000  2345  3000000   150000     900   300000             0 yolo_node",
       "[ 1800]  1000  1800   900000    50000     400   100000             0 gnome-shell"},
      {"[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
       "[   2345]  1000  2345  3000000   150000  4000000   300000             0 yolo_node",
       "[   1800]  1000  1800   900000    50000  1000000   100000          -250 gnome-shell"},
      {"[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents "
       "oom_score_adj name",
       "[   2345]  1000  2345  3000000   150000   147500     2500         0  4000000   300000             0 "
       "yolo_node",
       "[   1800]  1000  1800   900000    50000    49000     1000         0  1000000   100000             0 "
       "gnome-shell"}};
  for (const Kernel& kernel : kKernels) {
    const auto findings = findings_with(kernel.head, kernel.victim, kernel.other);
    ASSERT_EQ(findings.size(), 1U) << kernel.head;
    EXPECT_EQ(figure(findings[0], "victim_swap_bytes"), 300'000 * 4096) << kernel.head;
    EXPECT_THAT(findings[0].title, HasSubstr("which held 576.2 MiB and 1.14 GiB in swap")) << kernel.head;
    EXPECT_THAT(findings[0].cause, HasSubstr("The victim held 1.14 GiB more in swap")) << kernel.head;
  }
  // A small amount is a figure without a sentence. A kernel without the column has no figure.
  const Kernel& usual = kKernels[1];
  const auto little = findings_with(
      usual.head, "[   2345]  1000  2345  3000000   150000  4000000     3000             0 yolo_node",
      usual.other);
  EXPECT_EQ(figure(little.at(0), "victim_swap_bytes"), 3000 * 4096);
  EXPECT_THAT(little[0].cause, Not(HasSubstr("swap")));
  const auto none =
      findings_with("[ pid ]   uid  tgid total_vm      rss cpu oom_adj oom_score_adj name",
                    "[ 2345]  1000  2345  3000000   150000   1       0             0 yolo_node",
                    "[ 1800]  1000  1800   900000    50000   0       0             0 gnome-shell");
  EXPECT_EQ(figure(none.at(0), "victim_swap_bytes"), -1);
}

// A ring buffer or a search cut the report: the OOM killer ran, but the victim is unknown.
TEST(LogFindings, TruncatedReportIsAKillWithoutName) {
  LogFindings logs;
  EXPECT_TRUE(logs.read_line("log", 1, "python3 invoked oom-killer: gfp_mask=0x0"));
  EXPECT_TRUE(logs.read_line("log", 2, "anything"));
  for (int i = 0; i < doctor::OomReport::kMostLines; ++i) logs.read_line("log", 3, "anything");
  EXPECT_FALSE(logs.read_line("log", 4, "anything"));
  const auto findings = logs.findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "kernel-oom-kill");
  EXPECT_THAT(findings[0].title, HasSubstr("when python3 requested memory"));
}

TEST(LogFindings, ReportsMostDetailedMessage) {
  std::vector<std::string> lines(500, "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB");
  lines.push_back(
      "CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 3.79 GiB total capacity; 654.97 MiB already "
      "allocated; 6.00 MiB free; 666.00 MiB reserved in total by PyTorch)");
  const Finding finding = finding_in(lines);
  EXPECT_EQ(finding.times, 501);
  EXPECT_EQ(finding.evidence.size(), LogFindings::kMostEvidence);
  EXPECT_EQ(finding.evidence[0].line, 501);
  EXPECT_EQ(figure(finding, "requested_bytes"), 2 << 20);
  EXPECT_THAT(finding.cause, HasSubstr("Something outside this program held the memory"));
}

TEST(LogFindings, SortsCuresBySaving) {
  const Finding finding = finding_in(
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity "
       "of 23.69 GiB of which 8.00 MiB is free. Process 4242 has 20.00 GiB memory in use. Including "
       "non-PyTorch memory, this process has 3.60 GiB memory in use. Of the allocated memory 3.10 GiB is "
       "allocated by PyTorch, and 102.40 MiB is reserved by PyTorch but unallocated."});
  const auto& cures = finding.cures;
  ASSERT_GE(cures.size(), 4U);
  EXPECT_EQ(cures[0].saves, gibibytes(20));
  EXPECT_THAT(cures[1].what, HasSubstr("half precision"));
  EXPECT_EQ(cures[2].command, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  EXPECT_FALSE(cures[3].saves);
  EXPECT_THAT(finding.cause, HasSubstr("Other processes held 20.00 GiB of the GPU, this process 3.60 GiB"));
}

// Users run a command as it is printed, and open the path. A shortened one would be another.
TEST(LogFindings, TruncatesOnlyTexts) {
  std::vector<Finding> findings(1);
  const std::string command = "headroom bench --model a=/" + std::string(600, 'x') + " --mem-limit 1GiB";
  const std::string path = "/" + std::string(300, 'a') + "/\x1b[31m" + std::string(300, 'b') + "/run.log";
  findings[0].title = std::string(600, 'x');
  findings[0].cures = {{"measure it", command, {}}};
  findings[0].evidence = {{path, 1, "CUDA out of memory"}};
  doctor::clean_findings(findings);
  EXPECT_EQ(findings[0].cures[0].command, command);
  EXPECT_EQ(findings[0].title.size(), LogFindings::kMostText);
  EXPECT_EQ(findings[0].evidence[0].file,
            "/" + std::string(300, 'a') + "/" + std::string(300, 'b') + "/run.log");
}

TEST(LogFindings, SortsBySeverity) {
  const auto findings =
      findings_of({"CUDA0 : Orin (7619 MiB, 3875 MiB free)", "x: page allocation failure: order:4, mode:0x1",
                   "  what():  std::bad_alloc"});
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_EQ(findings[1].severity, Severity::warning);
  EXPECT_EQ(findings[2].severity, Severity::benign);
}

TEST(LogFindings, RemovesTerminalControlSequences) {
  const Finding finding =
      finding_in({"\x1b[31mOut of memory: Killed process 1 (\x1b]0;title\x07"
                  "evil) total-vm:1kB, anon-rss:1kB\x1b[0m"});
  EXPECT_THAT(finding.title, Not(HasSubstr("\x1b")));
  EXPECT_THAT(finding.evidence[0].text, Not(HasSubstr("\x1b")));
}

// The most detailed line comes first in the evidence, and the figures are from it.
TEST(LogFindings, LineWithFigureComesFirst) {
  const std::string error =
      "[E] Error[1]: [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)";
  const std::string request =
      "[W] [TRT] Requested amount of GPU memory (1073741824 bytes) could not be allocated. There may not be "
      "enough free memory for allocation to succeed.";
  const auto evidence_of = [](const Finding& finding) {
    std::vector<std::int64_t> lines;
    for (const Evidence& evidence : finding.evidence) lines.push_back(evidence.line);
    return lines;
  };
  const Finding once = only_of({error, request});
  EXPECT_THAT(evidence_of(once), testing::ElementsAre(2, 1));
  EXPECT_THAT(evidence_of(findings_of({request, error}).at(0)), testing::ElementsAre(1, 2));
  // The same for the second of two errors.
  const Finding twice = finding_in({error, error, request});
  EXPECT_EQ(twice.times, 2);
  EXPECT_EQ(figure(twice, "requested_bytes"), 1 << 30);
  EXPECT_THAT(evidence_of(twice), testing::ElementsAre(3, 1, 2));
}

TEST(LogFindings, JoinsTruncatedMessageOnlyWithItsContinuation) {
  const std::string cut =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a";
  const Finding alone = finding_in({cut, "Batch size 16 failed, trying batch size 8", "epoch 1"});
  EXPECT_EQ(alone.evidence.at(0).text, cut);
  EXPECT_EQ(figure(alone, "retries"), 1);
}

}  // namespace
}  // namespace headroom::test
