// Lines that only mention running out of memory, paired with lines that report it with the same words.
#include "doctor/log/log_prose.h"

#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::is_only_spoken_of;

TEST(LogProse, DistinguishesMentionsFromReports) {
  for (const std::string line :
       {// counters and answers
        "CUDA out of memory errors in total: 12", "retries: 0x CUDA out of memory",
        "Checking whether CUDA out of memory occurred: no",
        // results of tests
        "2026-11-21T10:30:00.1234567Z ✓ handles CUDA out of memory",
        "2026-11-21 10:30:00 PASS: survives CUDA out of memory", "errors: CUDA out of memory ... ok",
        // source code and diffs
        "    throw new Error('CUDA out of memory');", "  if \"CUDA out of memory\" in str(error):",
        "    self.skip()  # CUDA out of memory", "+ grep -c 'CUDA out of memory' run.log",
        // quotations
        "INFO: alert \"CUDA out of memory\" resolved", "Searching for 'CUDA out of memory' in 3 files",
        "{\"prompt\": \"explain CUDA out of memory\"}", "mail[7]: Subject: CUDA out of memory",
        // simulated
        "Simulated CUDA out of memory, as planned", "fault injection: CUDA out of memory",
        // tables and advice
        "| CUDA out of memory | lower the batch size |",
        "2025-03-04 10:11:12,345 - det - INFO - the batch may run CUDA out of memory"})
    EXPECT_TRUE(is_only_spoken_of(line)) << line;
  for (const std::string line :
       {"GPU 0 CUDA out of memory", "10 x CUDA out of memory", "CUDA out of memory occurred when warming up",
        "error: CUDA out of memory: 2", "CUDA out of memory on device: 0", "✗ infers: CUDA out of memory",
        "PASS 2 failed: CUDA out of memory", "SKIPPED batch 3: CUDA out of memory",
        // Python prints a raised exception by name, sometimes like a call. Groups of exceptions have a bar.
        "RuntimeError: CUDA out of memory", "worker.py:12: CUDA out of memory",
        "Task infer raised unexpected: RuntimeError('CUDA out of memory')", "-2 CUDA out of memory",
        "could not raise limit(2 GiB): CUDA out of memory", "    | RuntimeError: CUDA out of memory",
        "<< CUDA out of memory >>", "level=error err=\"RuntimeError: CUDA out of memory\"",
        "failed with \"CUDA out of memory\"", "{\"level\":\"error\",\"error\":\"CUDA out of memory\"}",
        "attempting to recover from CUDA out of memory",
        // A logger's prefix is not mistaken for prose.
        "2025-03-04 10:11:12,345 - det - ERROR - worker may restart - CUDA out of memory",
        "| 2025-03-04 10:00:00 | ERROR | CUDA out of memory", "[fault_injection_node-1] CUDA out of memory"})
    EXPECT_FALSE(is_only_spoken_of(line)) << line;
}

TEST(LogProse, ReportsErrorOfTracebackNotItsSource) {
  const Finding finding =
      only_of({"Traceback (most recent call last):", "  File \"a.py\", line 12, in run",
               "    raise RuntimeError(\"CUDA out of memory. Tried to allocate 2.00 GiB\")",
               "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"});
  EXPECT_EQ(finding.severity, Severity::severe);
  EXPECT_EQ(finding.evidence.at(0).line, 4);
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
}

TEST(LogProse, ReportsErrorInOtherField) {
  const std::string record =
      R"({"msg":"lower --batch to avoid CUDA out of memory","error":"CUDA out of memory"})";
  for (const std::string prefix : {"", "2026-11-21T10:30:00Z stderr F "})
    EXPECT_EQ(findings_of({prefix + record}).size(), 1U) << prefix;
}

TEST(LogProse, ReportsErrorsBesideWordsOfProse) {
  for (const std::string line :
       {// Vulkan's API dump reports a returned error in the present tense.
        "vkAllocateMemory(device) returns VkResult VK_ERROR_OUT_OF_DEVICE_MEMORY (-2):",
        "vkAllocateMemory(): returned VK_ERROR_OUT_OF_DEVICE_MEMORY",
        "could not catch (signal 9): CUDA out of memory",
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem",
        "args: Namespace(epochs=3) failed: CUDA out of memory", "errors = ['CUDA out of memory', 'timeout']",
        "CUDA out of memory, not recovered"})
    EXPECT_EQ(findings_of({line}).size(), 1U) << line;
  EXPECT_TRUE(findings_of({"I0000 xla: Ran out of memory in memory space hbm is handled by remat"}).empty());
}

}  // namespace
}  // namespace headroom::test
