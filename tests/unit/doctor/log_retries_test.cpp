// Whether a program survived its error: its retries and fallbacks, and lines that are neither.
#include "doctor/log/log_findings.h"
#include "doctor/log/log_retry.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::LogFindings;
using testing::HasSubstr;

Severity severity_of(const Lines& lines) { return findings_of(lines).at(0).severity; }

TEST(LogRetries, SurvivedErrorIsAWarning) {
  // Messages of Ultralytics, PyTorch Lightning, fairseq and Accelerate.
  const std::string itself = "CUDA out of memory with batch=16. Reducing to batch=8 and retrying (1/3).";
  const std::vector<std::vector<std::string>> kSurvived{
      {itself, "Epoch 1/100"},
      {kTorch, "Batch size 16 failed, trying batch size 8", "", "Finished batch size finder"},
      {kTorch, "| WARNING: attempting to recover from OOM in forward/backward pass", "| epoch 001"},
      {kTorch, "Decreasing batch size to: 8.", kTorch, "Decreasing batch size to: 4.", "epoch 1"}};
  for (const auto& lines : kSurvived) {
    const auto findings = findings_of(lines);
    ASSERT_EQ(findings.size(), 1U) << lines[0];
    EXPECT_EQ(findings[0].severity, Severity::warning) << lines[0];
    EXPECT_THAT(findings[0].title, HasSubstr("retried with a smaller size and continued"));
    EXPECT_GE(figure(findings[0], "retries"), 1);
    EXPECT_TRUE(doctor::tells_retry(findings[0].evidence.back().text)) << findings[0].evidence.back().text;
  }
}

TEST(LogRetries, FatalErrorIsSevere) {
  const std::string retry = "Decreasing batch size to: 4.";
  Lines late{kTorch};
  late.resize(doctor::kNearLines + 1, "a line");
  late.insert(late.end(), {retry, "epoch 1"});
  const Lines kFailed[] = {
      {kTorch, retry},                     // the log ends here: the outcome is unknown
      {kTorch, retry, "epoch 1", kTorch},  // fails again at the end
      {kTorch, "Retrying connection to 10.0.0.1", "epoch 1"},
      {kTorch, retry, "epoch 1", "RuntimeError: No executable batch size found, reached zero."},
      {"Out of memory: Killed process 8 (app) total-vm:1000kB, anon-rss:900kB, file-rss:0kB", retry,
       "epoch 1"},
      late};
  for (const Lines& lines : kFailed) {
    const auto findings = findings_of(lines);
    ASSERT_EQ(findings.size(), 1U) << lines.back();
    EXPECT_EQ(findings[0].severity, Severity::severe) << lines.back();
  }
}

TEST(LogRetries, RetryInOtherFileDoesNotCount) {
  LogFindings logs;
  logs.read_line("a", 1, kTorch);
  logs.end_file();
  logs.read_line("b", 2, "Decreasing batch size to: 4.");
  logs.read_line("b", 3, "epoch 1");
  EXPECT_EQ(logs.findings()[0].severity, Severity::severe);
}

// Since 0.11 Ollama allocates before it loads, and tries fewer layers until they fit.
TEST(LogRetries, OllamaRetryWithFewerLayersIsAWarning) {
  const std::vector<std::string> refused{
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 3840.00 MiB on device 0: cudaMalloc failed: "
      "out of memory",
      "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 4026531840"};
  const std::string again =
      "time=2025-12-02T17:06:41.503-05:00 level=INFO source=runner.go:1271 msg=load "
      "request=\"{Operation:alloc LoraPath:[] Parallel:1 BatchSize:512 FlashAttention:false KvSize:4096 "
      "KvCacheType: NumThreads:8 GPULayers:30[ID:GPU-f8 Layers:30(10..39)] UseMmap:false}\"";
  const std::string started =
      "time=2025-12-02T17:06:43.450-05:00 level=INFO source=server.go:1289 msg=\"llama runner started in "
      "3.24 seconds\"";
  const std::string terminated =
      "Error: llama runner process has terminated: cudaMalloc failed: out of memory";
  const auto survived = findings_of({refused[0], refused[1], again, started});
  ASSERT_EQ(survived.size(), 1U);
  EXPECT_EQ(survived[0].severity, Severity::warning);
  EXPECT_EQ(survived[0].evidence.back().line, 4);
  EXPECT_EQ(severity_of({refused[0], refused[1], again}), Severity::severe);
  // The model that starts then is another one.
  EXPECT_EQ(severity_of({refused[0], refused[1], terminated, again, started}), Severity::severe);
  EXPECT_EQ(severity_of(
                {"Error: model requires more system memory (9.2 GiB) than is available (5.4 GiB)", started}),
            Severity::severe);
  EXPECT_TRUE(findings_of({started}).empty());
}

// A retry of another program, or one that does not use less memory, does not count.
TEST(LogRetries, OnlyRetryOfSameProgramCounts) {
  const std::string message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
  const std::string retry = "Retrying with a smaller batch", own = "[detector-1] " + retry;
  const auto severity = [&](Lines after) {
    after.insert(after.begin(), "[detector-1] " + message);
    after.emplace_back("[nav-2] a line follows");
    return severity_of(after);
  };
  EXPECT_EQ(severity({own}), Severity::warning);
  EXPECT_EQ(severity({retry}), Severity::warning);
  EXPECT_EQ(severity({"[nav-2] " + retry}), Severity::severe);
  EXPECT_EQ(severity({"[INFO] [nav-2]: Retrying connection to memory_store in 5 s"}), Severity::severe);
  EXPECT_EQ(severity({"camera: Retrying with lower latency profile"}), Severity::severe);
  EXPECT_EQ(severity({"uploader: Skipping batch upload, offline"}), Severity::severe);
  EXPECT_EQ(severity({"| WARNING: ran out of memory, skipping batch"}), Severity::warning);
  // The program already ended.
  EXPECT_EQ(
      severity({"[ERROR] [detector-1]: process has died [pid 812, exit code 1, cmd 'detector']", retry}),
      Severity::severe);
  EXPECT_EQ(severity({"[ERROR] [nav-2]: process has died [pid 813, exit code 1, cmd 'nav']", own}),
            Severity::warning);
  EXPECT_EQ(severity({"nav-2 exited with code 0", own}), Severity::warning);
  EXPECT_EQ(severity({own, "[detector-1] Traceback (most recent call last):"}), Severity::severe)
      << "the second attempt failed, too";
  EXPECT_EQ(severity_of({message, "[nav-2] " + retry, "a line follows"}), Severity::severe)
      << "the failure has no name; the retry is of another program";
}

// A supervisor reports that the program ended. A retry by the next process does not count.
TEST(LogRetries, RetryAfterRestartDoesNotCount) {
  const std::string retry = "last run was out of memory, retrying with batch size 1";
  for (const std::string end :
       {"Aborted (core dumped)",
        "systemd[1]: detector.service: Main process exited, code=exited, status=1/FAILURE",
        "systemd[1]: detector.service: Failed with result 'exit-code'.",
        "systemd[1]: detector.service: Scheduled restart job, restart counter is at 1.",
        "systemd[1]: detector.service: Service hold-off time over, scheduling restart.",
        "systemd[1]: detector.service: Unit entered failed state.",
        "2026-11-21 10:30:00,123 INFO exited: detector (exit status 1; not expected)",
        "2026-11-21 10:30:00,123 INFO exited: detector (terminated by SIGABRT; not expected)",
        "PM2        | App [detector:0] exited with code [1] via signal [SIGINT]",
        "2026-11-21T10:30:00.000000000Z container die 4f2a9c (exitCode=1, image=det, name=det)",
        "Warning  BackOff  5s  kubelet  Back-off restarting failed container detector in pod detector-0",
        "kubelet[812]: \"SyncLoop (PLEG): event for pod\" event={\"Type\":\"ContainerDied\"}",
        "[2026-11-21 10:30:00 +0000] [12] [INFO] Worker exiting (pid: 12)",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0"}) {
    EXPECT_TRUE(doctor::tells_end(end)) << end;
    EXPECT_EQ(severity_of({kTorch, end, retry, "ready"}), Severity::severe) << end;
  }
  for (const std::string no_end :
       {"systemd[1]: logrotate.service: Main process exited, code=exited, status=0/SUCCESS",
        "systemd[1]: Started detector.service.", "nav-1 exited with code 0",
        "2026-11-21T10:30:00.000000000Z container die 4f2a9c (exitCode=0, image=det, name=det)",
        "2026-11-21 10:30:00,123 INFO exited: migrate (exit status 0; expected)"}) {
    EXPECT_FALSE(doctor::tells_end(no_end)) << no_end;
    EXPECT_EQ(severity_of({kTorch, no_end, retry, "ready"}), Severity::warning) << no_end;
  }
}

TEST(LogRetries, ReadsProcessFromJournalPrefix) {
  EXPECT_EQ(doctor::process_of("Nov 21 10:30:09 orin python3[4400]: ready"), "python3[4400]");
  EXPECT_EQ(doctor::process_of("python3[4400]: ready"), "python3[4400]");
  EXPECT_EQ(doctor::process_of("2026-11-21T10:30:09+0000 orin det.py[7]: [det-1]: x"), "det.py[7]");
  EXPECT_EQ(doctor::process_of("[ERROR] [1700560000.1] [detector]: failed"), "");
  EXPECT_EQ(doctor::process_of("[E] Error[2]: [executionContext.cpp] OutOfMemory"), "");
  EXPECT_EQ(doctor::process_of("[detector-1] ready"), "");
  // A line about the end of another process.
  EXPECT_EQ(doctor::process_of("systemd[1]: det.service: Failed with result 'exit-code'."), "");
}

TEST(LogRetries, OnlyRetryOfSameProcessCountsInJournal) {
  const std::string begin = "Nov 21 10:30:00 orin ", retry = "retrying with batch size 1";
  const auto severity = [&](const std::string& who, const std::string& end = "Epoch 1/100") {
    return severity_of(
        {begin + "python3[4312]: " + kTorch, end, who + retry, begin + "python3[4400]: ready"});
  };
  EXPECT_EQ(severity(begin + "python3[4312]: "), Severity::warning);
  EXPECT_EQ(severity(begin + "python3[4400]: "), Severity::severe);
  EXPECT_EQ(severity("  "), Severity::warning) << "the rest of a message of several lines";
  const std::string ended = "[ERROR] [det-1]: process has died [pid 99, exit code 1, cmd 'det'].";
  EXPECT_EQ(severity(begin + "python3[4312]: ", ended), Severity::warning);
  // A line without a name may belong to the program that ended. A retry that does not count is not reported.
  const Finding failed = findings_of({kTorch, ended, retry, "ready"}).at(0);
  EXPECT_EQ(failed.severity, Severity::severe);
  EXPECT_THAT(failed.cause, testing::Not(HasSubstr("retried")));
}

TEST(LogRetries, BuilderOfOtherEngineIsNotARetry) {
  const std::string skipped =
      "[W] [TRT] Skipping tactic 3 due to insufficient memory on requested size of 4294967296 detected for "
      "tactic 0x4.";
  const auto severity = [&](const std::string& refused) {
    for (const Finding& finding : findings_of({refused, "building secondary engine", skipped}))
      if (finding.id == "tensorrt-out-of-memory") return finding.severity;
    return Severity::benign;
  };
  EXPECT_EQ(severity("[TRT] [E] IExecutionContext::createExecutionContext: Error Code 2: OutOfMemory "
                     "(Requested size was 4831838208 bytes.)"),
            Severity::severe);
  EXPECT_EQ(
      severity("WARNING: [TRT]: Requested amount of GPU memory (4294967296 bytes) could not be allocated."),
      Severity::warning);
}

// If the line after a retry reports a kill or another end, the retry failed.
TEST(LogRetries, KillAfterRetryMeansRetryFailed) {
  const std::string refused = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB";
  const auto severity = [&](const std::string& behind) {
    return finding_of_id(findings_of({refused, "Decreasing batch size to: 4.", behind, "a line follows"}),
                         "pytorch-out-of-memory")
        .severity;
  };
  for (const char* end :
       {"Killed", "run.sh: line 12:  4312 Killed       python3 train.py", "make: *** [train] Error 137",
        "command terminated with exit code 137", "srun: error: node1: tasks 0-3: Killed",
        "RuntimeError: DataLoader worker (pid 812) is killed by signal: Killed. ",
        "Out of memory: Killed process 4312 (python3) total-vm:1000kB, anon-rss:900kB, file-rss:0kB",
        "python3 invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE), order=0",
        "systemd[1]: train.service: A process of this unit has been killed by the OOM killer.",
        "systemd[1]: train.service: systemd-oomd killed 3 process(es) in this unit.", "Segmentation fault",
        "Aborted", "Terminated", "Bus error", "./a.sh: line 4:  4312 Segmentation fault      ./a",
        "W1126 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 13 closing signal "
        "SIGTERM",
        "Fatal Python error: Segmentation fault"})
    EXPECT_EQ(severity(end), Severity::severe) << end;
  for (const char* other :
       {"epoch 1", "Killed 3 stale workers of an earlier run", "Aborted transactions: 0",
        "make: *** [Makefile:3: lint] Error 1 (ignored)", "Terminated 3 idle workers",
        "srun: error: Unable to create step for job 7: retrying", "Error on line 4: Aborted upload",
        "Segmentation faults are reported by core_pattern", "job 137 exited with exit code 0"})
    EXPECT_EQ(severity(other), Severity::warning) << other;
}

// Other programs retry operations whose names contain "memory".
TEST(LogRetries, RecognizesOnlyRetriesAfterLackOfMemory) {
  for (const std::string other :
       {"redis: Retrying with shared memory transport", "Retrying to open the shared memory segment /psm_1",
        "in-memory cache: Retrying lookup", "Retrying to access memory map of 0000:01:00.0",
        "Retrying with memory-mapped reads", "NVML: Retrying to read memory clocks",
        "Retrying on slow memory node 1", "Retrying join of the ZOOM room",
        "memory_store: Retrying write of block 7", "nccl: Retrying over SHM, shared memory OOM hint is off",
        "uploader: Skipping batch 3, memory card is full",
        "Transient error Internal Server Error encountered while exporting span batch, retrying in 0.89s.",
        "urllib3: Retrying upload of smaller chunk", "connection lost, retrying with fewer workers"}) {
    EXPECT_FALSE(doctor::tells_retry(other)) << other;
    EXPECT_EQ(severity_of({kTorch, other, "bye"}), Severity::severe) << other;
  }
  for (const std::string own :
       {"CUDA OOM, retrying in a moment", "Ran out of memory, retrying with half of the frames",
        "Retrying with less memory", "Retrying in low memory mode", "low-memory retry: Retrying the step",
        "Insufficient memory; Retrying with 2 streams", "Not enough memory, retrying",
        "MemoryError: retrying", "torch.OutOfMemoryError caught, retrying",
        "Memory allocation failed, retrying with chunks", "Retrying with --lowvram",
        "Skipping batch 3: MemoryError",
        "Warning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding."}) {
    EXPECT_TRUE(doctor::tells_retry(own)) << own;
    EXPECT_EQ(severity_of({kTorch, own, "epoch 1"}), Severity::warning) << own;
  }
}

// Ultralytics searches for the largest batch that fits, so one failure is part of the search.
TEST(LogRetries, BatchSizeSearchIsNotSevere) {
  const std::string refused =
      "CUDA out of memory. Tried to allocate 400.00 MiB. GPU 0 has a total capacity of 7.79 GiB of which "
      "60.00 MiB is free.";
  const std::string chosen = "AutoBatch: Using batch-size 14 for CUDA:0 4.70G/7.79G (60%)";
  const Lines search{
      "AutoBatch: Computing optimal batch size for imgsz=640 at 60.0% CUDA memory utilization.", refused};
  const auto severity = [&](const Lines& behind) {
    Lines lines = search;
    lines.insert(lines.end(), behind.begin(), behind.end());
    return severity_of(lines);
  };
  EXPECT_EQ(severity({chosen, "Epoch 1"}), Severity::warning);
  EXPECT_EQ(severity({chosen}), Severity::warning);
  EXPECT_EQ(severity({}), Severity::severe);
  EXPECT_EQ(severity({chosen, "Epoch 1", refused}), Severity::severe);
  EXPECT_EQ(severity({"Using batch-size 14"}), Severity::severe);
}

// The line that reports the failure also says that it was caught. It may be the last line of a log.
TEST(LogRetries, LineWithItsOwnRetryIsAWarning) {
  for (const std::string line :
       {"WARNING ⚠️ CUDA out of memory with batch=16, reducing to batch=8 and retrying.",
        "CUDA out of memory with batch=16. Reducing to batch=8 and retrying (1/3)."}) {
    EXPECT_EQ(severity_of({line}), Severity::warning) << line;
    EXPECT_EQ(severity_of({line, "Epoch 1"}), Severity::warning) << line;
    EXPECT_EQ(severity_of({line, "Killed"}), Severity::severe) << line;
    EXPECT_EQ(severity_of({line, "Epoch 1", kTorch}), Severity::severe) << line;
  }
  // If the retry is a separate last line, the outcome is unknown.
  EXPECT_EQ(severity_of({kTorch, "Reducing to batch=8 and retrying (1/3)."}), Severity::severe);
}

TEST(LogRetries, LineWithItsFallbackIsAWarning) {
  const auto findings = findings_of({"[INFO] Falling back to CPU: CUDA out of memory"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_THAT(findings[0].title, HasSubstr("the program continued without it"));
}

}  // namespace
}  // namespace headroom::test
