// Text around messages: quotation marks, a line break that a log shipper inserted into a kill, and a second
// logger that repeats the message.
#include "doctor/log/log_findings.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::LogFindings;
using testing::HasSubstr;

std::int64_t times_of(const std::vector<std::string>& lines) {
  const auto findings = findings_of(lines);
  EXPECT_EQ(findings.size(), 1U) << lines.back();
  return findings.empty() ? 0 : findings[0].times;
}

TEST(LogBrokenLines, ReadsQuotedLines) {
  const std::string xla =
      "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
      "1073741824 bytes.";
  for (const std::string marks : {"> ", ">", ">> ", "> > "})
    for (const std::string& text : {xla, kTorch, std::string("MemoryError")}) {
      const auto quoted = findings_of({marks + text}), plain = findings_of({text});
      ASSERT_EQ(quoted.size(), 1U) << marks << text;
      EXPECT_EQ(quoted[0].title, plain.at(0).title) << marks;
      EXPECT_EQ(quoted[0].evidence.at(0).text, plain[0].evidence.at(0).text) << marks;
    }
  EXPECT_EQ(findings_of({R"(> {"log":"MemoryError\n","stream":"stderr"})"}).size(), 1U);
  // A message over several lines, each of them quoted.
  EXPECT_EQ(
      figure(findings_of({"> " + kTorch.substr(0, 100), "> " + kTorch.substr(100)}).at(0), "free_bytes"),
      figure(findings_of({kTorch}).at(0), "free_bytes"));
}

const std::string kKill =
    "Memory cgroup out of memory: Killed process 4321 (python3) total-vm:8123456kB, "
    "anon-rss:4123456kB, file-rss:1234kB, shmem-rss:0kB, UID:0 pgtables:9000kB "
    "oom_score_adj:0";

TEST(LogBrokenLines, JoinsBrokenKillLine) {
  const auto whole = findings_of({kKill});
  for (const std::string field : {"total-vm", "anon-rss", "file-rss", "shmem-rss", "UID", "pgtables", "oom_"})
    for (const std::string prefix : {"", "Mar 02 10:00:00 node kernel: [  510.917639] "}) {
      const std::size_t at = kKill.find(field);
      const auto broken = findings_of({prefix + kKill.substr(0, at - 1), prefix + kKill.substr(at), "other"});
      ASSERT_EQ(broken.size(), 1U) << field;
      EXPECT_EQ(broken[0].times, 1) << field;
      EXPECT_EQ(broken[0].title, whole.at(0).title) << field;
      EXPECT_EQ(broken[0].figures.size(), whole[0].figures.size()) << field;
      EXPECT_EQ(broken[0].evidence.at(0).line, 1) << field;
    }
  const auto thrice =
      findings_of({"Memory cgroup out of memory: Killed process 4321 (python3)",
                   "total-vm:8123456kB, anon-rss:4123456kB,", "file-rss:1234kB, shmem-rss:0kB"});
  EXPECT_EQ(figure(thrice.at(0), "file_bytes"), 1234LL << 10);
}

TEST(LogBrokenLines, LineAfterKillIsNotAlwaysItsRest) {
  const std::string kill = "Memory cgroup out of memory: Killed process 4321 (python3)";
  for (const std::string next : {"the program held total-vm:1kB and more", "MemoryError", ""}) {
    const auto findings = findings_of({kill, next});
    ASSERT_GE(findings.size(), 1U) << next;
    EXPECT_EQ(figure(finding_of_id(findings, "cgroup-oom-kill"), "virtual_bytes"), -1) << next;
    EXPECT_EQ(findings.size(), next == "MemoryError" ? 2U : 1U) << next;
  }
  // Two kills in a row, and one whose second part comes too late.
  EXPECT_EQ(findings_of({kill, "Memory cgroup out of memory: Killed process 4322 (python3)"}).at(0).times, 2);
  const auto late = findings_of({kill, "a line", "total-vm:8123456kB, anon-rss:4123456kB"});
  EXPECT_EQ(figure(late.at(0), "virtual_bytes"), -1);
  // Other programs print this, too.
  EXPECT_TRUE(findings_of({"Killed process 4321 (python3)", "done"}).empty());
}

// Inside the kernel's report, and read from a file, where the reader passes on only some lines.
TEST(LogBrokenLines, BrokenKillKeepsFiguresOfItsReport) {
  TemporaryFolder folder;
  write_text(folder / "kernel.log",
             "python3 invoked oom-killer: gfp_mask=0xcc0\nmemory: usage 524288kB, limit "
             "524288kB, failcnt 12\n" +
                 kKill.substr(0, kKill.find(" file-rss")) + "\n" + kKill.substr(kKill.find("file-rss")) +
                 "\nafter\n");
  LogFindings logs;
  ASSERT_TRUE(logs.read_file(folder / "kernel.log").has_value());
  const auto findings = logs.findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(figure(findings[0], "limit_bytes"), mebibytes(512).count);
  EXPECT_EQ(figure(findings[0], "file_bytes"), 1234LL << 10);
}

TEST(LogBrokenLines, ReadsFiguresAfterMessageFromFiles) {
  TemporaryFolder folder;
  write_text(folder / "cl.log",
             "clCreateBuffer failed: CL_MEM_OBJECT_ALLOCATION_FAILURE\n\n  requested: 536870912 bytes\n  max "
             "alloc size: 268435456\n");
  LogFindings logs;
  ASSERT_TRUE(logs.read_file(folder / "cl.log").has_value());
  EXPECT_EQ(figure(logs.findings().at(0), "largest_buffer_bytes"), mebibytes(256).count);
}

const std::string kJournal = "May 12 10:11:12 host myapp[4312]: ";

TEST(LogBrokenLines, SameMessageOfTwoLoggersCountsOnce) {
  for (const std::string& text : {std::string("RuntimeError: CUDA error: out of memory"), kTorch})
    for (const std::string own :
         {"2025-05-12 10:11:12,345 ERROR trainer: ", "2025-05-12 10:11:12,345 - app.trainer - ERROR - ",
          "ERROR 05-12 10:11:13 [core.py:396] ", "2025-05-12 08:11:12.345 | ERROR | ",
          "[2025-05-12T10:11:12Z] [4312] [ERROR] "}) {
      EXPECT_EQ(times_of({kJournal + text, own + text}), 1) << own;
      EXPECT_EQ(times_of({own + text, "a line", "and one", kJournal + text}), 1) << own;
      EXPECT_EQ(times_of({kJournal + text, kJournal + own + text}), 1) << own;
      // Two events, each logged by both loggers.
      EXPECT_EQ(times_of({kJournal + text, own + text, kJournal + text, own + text}), 2) << own;
      EXPECT_EQ(times_of({kJournal + text, kJournal + text, own + text, own + text}), 2) << own;
    }
}

TEST(LogBrokenLines, RealRepetitionsAreCounted) {
  const std::string text = "RuntimeError: CUDA error: out of memory",
                    own = "2025-05-12 10:11:12,345 ERROR trainer: ";
  const std::vector<std::string> kTwice[] = {
      {text, text},
      {kJournal + text, kJournal + text},
      {own + text, own + text},
      {own + text, "2025-05-12 10:11:12,345 ERROR evaluation: " + text},
      {kJournal + text, text},                                         // no time
      {kJournal + text, "May 12 10:11:12 host myapp[4313]: " + text},  // two processes
      {kJournal + text, "2025-05-12 10:11:12,345 [4313] ERROR " + text},
      {kJournal + text, "2025-05-12 10:11:15,345 ERROR trainer: " + text},  // seconds later
      {kJournal + text, "1", "2", "3", own + text},                         // too far away
      {kJournal + "RuntimeError: CUDA error: out of memory 1",
       own + "RuntimeError: CUDA error: out of memory 2"},
      {kJournal + "[rank0]: " + text, own + "[rank1]: " + text},
      {kJournal + text, "2025-05-12 10:11:12,345 ERROR worker 3: " + text}};
  for (const auto& lines : kTwice) EXPECT_EQ(times_of(lines), 2) << lines.front() << "\n" << lines.back();
}

// A later line is not a retry of an error that ended the program, even if a second logger repeated the
// error.
TEST(LogBrokenLines, RepeatedFatalErrorStaysFatal) {
  const std::string text = "RuntimeError: CUDA error: out of memory",
                    own = "2025-05-12 10:11:12,345 ERROR trainer: ";
  const auto findings = findings_of({kJournal + text, own + "Traceback (most recent call last):", own + text,
                                     "Decreasing batch size to: 4.", "epoch 1"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_EQ(findings[0].severity, Severity::severe);
}

}  // namespace
}  // namespace headroom::test
