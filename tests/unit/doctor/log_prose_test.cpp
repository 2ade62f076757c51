// Lines that only mention running out of memory, paired with lines that report it with the same words.
#include "doctor/log/log_prose.h"

#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::is_only_spoken_of;

TEST(LogProse, IgnoresCountersAndAnswers) {
  for (const std::string line :
       {"[INFO] CUDA out of memory errors so far: 0", "CUDA out of memory errors in total: 12",
        "0 x CUDA out of memory", "retries: 0x CUDA out of memory", "'CUBLAS_STATUS_ALLOC_FAILED': 3,",
        "Checking whether CUDA out of memory occurred: no", "CUDA out of memory? no",
        "CUDA out of memory: false"})
    EXPECT_TRUE(is_only_spoken_of(line)) << line;
  for (const std::string line :
       {"GPU 0 CUDA out of memory", "10 x CUDA out of memory", "CUDA out of memory: 3 GiB wanted",
        "CUDA out of memory occurred when warming up", "error: CUDA out of memory: 2",
        "CUDA out of memory on device: 0"})
    EXPECT_FALSE(is_only_spoken_of(line)) << line;
}

TEST(LogProse, IgnoresTestResults) {
  for (const std::string line :
       {"  ✓ handles CUDA out of memory (12ms)", "✔ reports CUDA out of memory",
        "2026-11-21T10:30:00.1234567Z ✓ handles CUDA out of memory",
        "[PASS] gpu_oom: \"CUDA out of memory\" is reported as an error", "ok: CUDA out of memory is caught",
        "2026-11-21 10:30:00 PASS: survives CUDA out of memory",
        "XFAIL tests/test_x.py::test_a - CUDA out of memory",
        "SKIPPED [1] tests/test_x.py:3: CUDA out of memory", "errors: CUDA out of memory ... ok"})
    EXPECT_TRUE(is_only_spoken_of(line)) << line;
  for (const std::string line :
       {"✗ infers: CUDA out of memory", "✓ loaded; inference failed: CUDA out of memory",
        "FAILED tests/test_x.py::test_a - RuntimeError: CUDA out of memory",
        "PASS 2 failed: CUDA out of memory", "SKIPPED batch 3: CUDA out of memory",
        "ok: [orin] => {\"msg\": \"RuntimeError: CUDA out of memory\"}"})
    EXPECT_FALSE(is_only_spoken_of(line)) << line;
}

TEST(LogProse, IgnoresSourceCodeAndDiffs) {
  for (const std::string line :
       {"src/a.py:12:    raise RuntimeError(\"CUDA out of memory\")", "    raise MemoryError",
        "+    raise torch.cuda.OutOfMemoryError(\"CUDA out of memory\")", "-RuntimeError: CUDA out of memory",
        "    throw std::runtime_error(\"CUDA out of memory\");", "    throw new Error('CUDA out of memory');",
        "    warnings.warn(f\"CUDA out of memory, using the CPU\")", "logger.error(\"CUDA out of memory\")",
        "  with pytest.raises(RuntimeError, match=\"CUDA out of memory\"):",
        "  if \"CUDA out of memory\" in str(error):", "    self.skip()  # CUDA out of memory",
        "src/a.py:12:# CUDA out of memory", "+ grep -c 'CUDA out of memory' run.log"})
    EXPECT_TRUE(is_only_spoken_of(line)) << line;
  // Python prints a raised exception by name, sometimes like a call. Groups of exceptions have a bar.
  for (const std::string line : {"RuntimeError: CUDA out of memory", "worker.py:12: CUDA out of memory",
                                 "Task infer raised unexpected: RuntimeError('CUDA out of memory')",
                                 "-2 CUDA out of memory", "could not raise limit(2 GiB): CUDA out of memory",
                                 "    | RuntimeError: CUDA out of memory", "<< CUDA out of memory >>"})
    EXPECT_FALSE(is_only_spoken_of(line)) << line;
}

TEST(LogProse, IgnoresQuotationsButNotQuotedErrors) {
  for (const std::string line :
       {"INFO: alert rule \"CUDA out of memory\" loaded", "INFO: alert \"CUDA out of memory\" resolved",
        "Searching for 'CUDA out of memory' in 3 files",
        "[DEBUG] Prompt: \"explain RuntimeError: CUDA out of memory\"",
        "{\"prompt\": \"explain CUDA out of memory\"}", "Downloading \"CUDA out of memory explained.mp4\"",
        "User asked: why CUDA out of memory?", "Subject: CUDA out of memory",
        "mail[7]: Subject: CUDA out of memory"})
    EXPECT_TRUE(is_only_spoken_of(line)) << line;
  for (const std::string line :
       {"error: \"CUDA out of memory\"", "level=error err=\"RuntimeError: CUDA out of memory\"",
        "{'event': 'CUDA out of memory', 'level': 'error'}", "failed with \"CUDA out of memory\"",
        "2026-11-21 10:30:00.123 | ERROR    | app.worker:run:45 - CUDA out of memory",
        "thread 'main' panicked at 'CUDA out of memory', src/main.rs:10:5",
        "{\"level\":\"error\",\"error\":\"CUDA out of memory\"}",
        "Prompt: \"a cat\" failed: CUDA out of memory"})
    EXPECT_FALSE(is_only_spoken_of(line)) << line;
}

TEST(LogProse, IgnoresSimulatedAndRecoveredErrors) {
  for (const std::string line :
       {"Simulating CUDA out of memory", "Simulated CUDA out of memory, as planned",
        "fault injection: returning CUDA_ERROR_OUT_OF_MEMORY", "INFO Recovered from CUDA out of memory",
        "Retrying after CUDA out of memory is enabled", "torch.cuda.OutOfMemoryError was not raised"})
    EXPECT_TRUE(is_only_spoken_of(line)) << line;
  EXPECT_FALSE(is_only_spoken_of("attempting to recover from CUDA out of memory"));
}

TEST(LogProse, ReportsErrorOfTracebackNotItsSource) {
  const auto findings =
      findings_of({"Traceback (most recent call last):", "  File \"a.py\", line 12, in run",
                   "    raise RuntimeError(\"CUDA out of memory. Tried to allocate 2.00 GiB\")",
                   "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_EQ(findings[0].evidence.at(0).line, 4);
}

// Messages with a prefix that looks like advice, a list or a table.
TEST(LogProse, MessageWithAmountsIsAFinding) {
  const std::string message =
      "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already "
      "allocated; 0.50 GiB free; 6.10 GiB reserved in total by PyTorch)";
  for (const std::string before :
       {"2025-03-04 10:11:12,345 - det - ERROR - worker may restart - ",
        "ERROR - could not check if engine fits - ", "| 2025-03-04 10:00:00 | ERROR | ",
        "[ERROR] [det-1]: inference aborted when ", "job 3 runs ",
        "[fault_injection_node-1] RuntimeError: ", "- RuntimeError: "})
    EXPECT_EQ(findings_of({before + message}).size(), 1U) << before;
  EXPECT_TRUE(findings_of({"+    " + message}).empty()) << "a line of a diff";
  EXPECT_TRUE(findings_of({"✓ reports " + message}).empty());
  // Without amounts, a logger's prefix is still not mistaken for prose.
  for (const std::string line :
       {"2025-03-04 10:11:12,345 - det - ERROR - worker may restart - CUDA out of memory",
        "| 2025-03-04 10:00:00 | ERROR | CUDA out of memory", "[fault_injection_node-1] CUDA out of memory"})
    EXPECT_FALSE(is_only_spoken_of(line)) << line;
  for (const std::string line :
       {"| CUDA out of memory | lower the batch size |", "fault injection: CUDA out of memory",
        "2025-03-04 10:11:12,345 - det - INFO - the batch may run CUDA out of memory"})
    EXPECT_TRUE(is_only_spoken_of(line)) << line;
}

// Also with the key in front. An error in another field is still reported.
TEST(LogProse, IgnoresFieldThatOnlyMentionsError) {
  EXPECT_TRUE(findings_of({R"({"message":"✓ handles CUDA out of memory","level":"info"})"}).empty());
  EXPECT_TRUE(findings_of({R"({"log":"- CUDA out of memory\n","stream":"stdout"})"}).empty());
  EXPECT_TRUE(findings_of({"2026-11-21T10:30:00Z stderr F - CUDA out of memory"}).empty());
  for (const std::string prefix : {"", "2026-11-21T10:30:00Z stderr F "})
    EXPECT_EQ(
        findings_of(
            {prefix + R"({"msg":"lower --batch to avoid CUDA out of memory","error":"CUDA out of memory"})"})
            .size(),
        1U)
        << prefix;
}

}  // namespace
}  // namespace headroom::test
