// Events that several lines describe: messages over several lines, figures that were printed earlier, and
// nearby lines of the same file.
#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "doctor/log/log_findings.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::LogFindings;
using testing::HasSubstr;

TEST(LogEvents, JoinsMessageBrokenAnywhere) {
  const Finding whole = finding_in({kTorch});
  for (std::size_t at = std::string("torch.OutOfMemoryError: CUDA out of memory.").size();
       at < kTorch.size() - 60; ++at) {
    const Finding broken = only_of({kTorch.substr(0, at), kTorch.substr(at), "    at model.py"});
    EXPECT_EQ(broken.id, whole.id) << kTorch.substr(at);
    EXPECT_EQ(figure(broken, "requested_bytes"), 324 << 20) << kTorch.substr(at);
    EXPECT_EQ(figure(broken, "allocated_bytes"), figure(whole, "allocated_bytes")) << kTorch.substr(at);
    EXPECT_EQ(broken.evidence[0].line, 1);
  }
}

TEST(LogEvents, JoinsMessageWrappedAtEightyColumns) {
  std::vector<std::string> lines{"Traceback (most recent call last):"};
  for (std::size_t at = 0; at < kTorch.size(); at += 80) lines.push_back(kTorch.substr(at, 80));
  const Finding broken = only_of(lines);
  EXPECT_EQ(broken.title, only_of({kTorch}).title);
}

TEST(LogEvents, CountsTwoMessagesInARowTwice) {
  const std::string cut = "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB";
  const Finding finding = finding_in({cut, kTorch, cut});
  EXPECT_EQ(finding.times, 3);
  EXPECT_EQ(figure(finding, "requested_bytes"), 324 << 20);
}

TEST(LogEvents, SeveralLinesOfOneEventCountOnce) {
  const std::vector<std::string> kOnce[] = {
      {"terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"},
      {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 345.72 MiB on device 0: cudaMalloc failed: "
       "out of memory",
       "alloc_tensor_range: failed to allocate CUDA0 buffer of size 362517888"},
      {"2024-05-01 10:00:00.1 [E:onnxruntime:, sequential_executor.cc:516 ExecuteKernel] Non-zero status "
       "code returned while running Conv node. Name:'/conv' Status Message: bfc_arena.cc:376 "
       "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 1073741824",
       "Traceback (most recent call last):", "  File \"run.py\", line 3, in <module>",
       "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : "
       "RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. Name:'/conv' Status "
       "Message: bfc_arena.cc:376 BFCArena::AllocateRawInternal Failed to allocate memory for requested "
       "buffer of size 1073741824"},
      {"[TRT] [W] Requested amount of GPU memory (1073741824 bytes) could not be allocated. There may not be "
       "enough free memory for allocation to succeed.",
       "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::160] Error Code 2: OutOfMemory (no further "
       "information)"}};
  for (const auto& lines : kOnce) {
    const Finding finding = only_of(lines);
    EXPECT_EQ(finding.evidence.size(), 2U) << lines[0];
    std::vector<std::string> twice = lines;
    twice.insert(twice.end(), lines.begin(), lines.end());
    EXPECT_EQ(findings_of(twice)[0].times, 2) << lines[0];
  }
}

TEST(LogEvents, NvMapIsSevereOnlyNearFailureInSameFile) {
  const std::string nvmap = "NvMapMemAllocInternalTagged: 1075072515 error 12";
  const auto severity = [&](const std::string& file, std::int64_t line, bool survived) {
    LogFindings logs;
    logs.read_line("a", 10, nvmap);
    if (file != "a") logs.end_file();
    logs.read_line(file, line, kTorch);
    if (survived) {
      logs.read_line(file, line + 1, "Decreasing batch size to: 4.");
      logs.read_line(file, line + 2, "epoch 1");
    }
    for (const Finding& finding : logs.findings())
      if (finding.id == "nvmap-allocation-failed") return finding.severity;
    return Severity::benign;
  };
  EXPECT_EQ(severity("a", 12, false), Severity::severe);
  EXPECT_EQ(severity("b", 12, false), Severity::warning);
  EXPECT_EQ(severity("a", 12 + doctor::kNearLines, false), Severity::warning);
  EXPECT_EQ(severity("a", 12, true), Severity::warning);
}

// "7605.33 MiB" is rounded. A later line of the event has the exact number, even with another line in
// between.
TEST(LogEvents, PrefersExactSizeOfEvent) {
  const std::string rounded =
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 7605.33 MiB on device 0: cudaMalloc failed: "
      "out of memory";
  const std::string load = "llama_model_load: error loading model: unable to allocate CUDA0 buffer";
  const std::string exact = "alloc_tensor_range: failed to allocate CUDA0 buffer of size 7974779904";
  for (const auto& lines :
       {std::vector{rounded, exact, load}, {rounded, load, exact}, {exact, rounded, load}}) {
    EXPECT_EQ(figure(only_of(lines), "requested_bytes"), 7974779904);
  }
  // The exact size belongs to the second event only.
  const Finding two = finding_in({rounded, rounded, exact});
  EXPECT_EQ(two.times, 2);
  EXPECT_EQ(figure(two, "requested_bytes"), 7974766510);
}

TEST(LogEvents, IgnoresFiguresOfOtherFile) {
  LogFindings logs;
  logs.read_line("a", 1, "llama_context: n_ctx         = 8192");
  logs.end_file();
  logs.read_line("b", 1, "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560");
  EXPECT_EQ(figure(logs.findings().at(0), "context_length"), -1);
}

// As in public threads about TensorRT 8.5: the builder continues without the tactic.
TEST(LogEvents, BuildThatSkipsTacticContinues) {
  const std::vector<std::string> lines{
      "[11/23/2026-10:00:00] [E] Error[2]: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: "
      "OutOfMemory (no further information)",
      "[11/23/2026-10:00:00] [W] [TRT] Requested amount of GPU memory (17179869184 bytes) could not be "
      "allocated. There may not be enough free memory for allocation to succeed.",
      "[11/23/2026-10:00:00] [W] [TRT] Skipping tactic 8 due to insufficient memory on requested size of "
      "17179869184 detected for tactic 0x000000000000003c.",
      "[11/23/2026-10:00:34] [I] Engine built in 34.2 sec."};
  for (const Finding& finding : findings_of(lines))
    EXPECT_NE(finding.severity, Severity::severe) << finding.title;
  EXPECT_EQ(only_of({lines[0], lines[1]}).severity, Severity::severe);
}

TEST(LogEvents, KernelReportInJsonKeepsFigures) {
  Lines lines, records;
  const std::string text = read_text(test::source_path("tests/golden/doctor/oom_machine.log"));
  for (const std::string_view line : split(text, '\n')) {
    lines.emplace_back(line);
    records.push_back(R"({"_TRANSPORT":"kernel","MESSAGE":)" + Json(std::string(line)).dump() + "}");
  }
  const Finding plain = findings_of(lines).at(0), wrapped = findings_of(records).at(0);
  EXPECT_EQ(wrapped.title, plain.title);
  EXPECT_EQ(wrapped.figures.size(), plain.figures.size());
}

// Two nodes of one launch that fail for different reasons are two findings.
TEST(LogEvents, SeparatesProgramsOfOneLog) {
  const auto findings =
      findings_of({"[camera-2] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU "
                   "0 has a total capacity of 7.99 GiB of which 5.25 MiB is free.",
                   "[planner-3] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. "
                   "GPU 0 has a total capacity of 7.99 GiB of which 105.25 MiB is free."});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].title, HasSubstr("20.0 MiB"));
  EXPECT_THAT(findings[1].title, HasSubstr("500.0 MiB"));
}

TEST(LogEvents, ReadsProgramFromPrefix) {
  const std::pair<std::string_view, std::string_view> kLines[] = {
      {"[detector-1] text", "detector-1"},
      {"[ERROR] [1732353600.1] [camera_node-12]: text", "camera_node-12"},
      {"detector-1  | text", "detector-1"},
      {"ERROR | text", ""},
      {"[2026-11-23 10:00:00] text", ""},
      {"[2026-11-23] text", ""},
      {"[TRT] text", ""},
      {"a sentence of words | and more", ""},
      {"", ""}};
  for (const auto& [line, program] : kLines) EXPECT_EQ(doctor::source_of(line), program) << line;
}

TEST(LogEvents, ManyWarningsDoNotHideSevereFinding) {
  std::vector<std::string> lines;
  for (int i = 0; i < 250; ++i)
    lines.push_back(fmt::format("bash: line 1: {} Killed                  python3 job{}.py", 1000 + i, i));
  lines.emplace_back("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.");
  const auto findings = findings_of(lines);
  ASSERT_EQ(findings.size(), LogFindings::kMostGroups + 2);
  EXPECT_EQ(findings.front().id, "pytorch-out-of-memory");
  EXPECT_EQ(findings.back().id, "messages-left-out");
  EXPECT_EQ(findings.back().times, 50);
  EXPECT_THAT(findings.back().evidence.at(0).text, HasSubstr("job200.py"));
}

// TensorFlow's allocator retries with a tenth less until the driver grants the request.
TEST(LogEvents, TensorFlowRetriesAreOneEvent) {
  const auto refused = [](const char* size, std::int64_t bytes) {
    return fmt::format(
        "E cuda_driver.cc:936] failed to allocate {} ({} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out "
        "of memory",
        size, bytes);
  };
  const std::vector<std::string> start{refused("3.90G", 4187987968), refused("3.51G", 3769189376),
                                       refused("3.16G", 3392270336)};
  EXPECT_EQ(finding_in(start).severity, Severity::warning);
  EXPECT_EQ(findings_of({start[0]}).at(0).severity, Severity::severe) << "nothing was asked for after it";
  std::vector<std::string> failed = start;
  failed.emplace_back(
      "ResourceExhaustedError: OOM when allocating tensor with shape[32,256,256,64] and type float on GPU:0");
  EXPECT_EQ(findings_of(failed).at(0).severity, Severity::severe);
}

TEST(LogEvents, EvidenceOfLongLineContainsMessage) {
  const std::string line =
      std::string(3000, 'x') + " torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
  const std::string text = findings_of({line}).at(0).evidence.at(0).text;
  EXPECT_THAT(text, HasSubstr("Tried to allocate 2.00 GiB"));
  EXPECT_LE(text.size(), LogFindings::kMostText + 3);
}

TEST(LogEvents, DoesNotMisreadOtherNumberFormats) {
  EXPECT_EQ(doctor::leading_size("1e3 MiB"), std::nullopt);
  EXPECT_EQ(doctor::leading_size("1,5"), std::nullopt);
  EXPECT_EQ(doctor::leading_size("1,5 GiB"), mebibytes(1536));
  EXPECT_EQ(doctor::leading_size("1900,00 MiB"), mebibytes(1900));
  EXPECT_EQ(doctor::leading_size("1,5 of 2"), std::nullopt);
  EXPECT_EQ(doctor::leading_size("1,024 MiB"), mebibytes(1024));
  EXPECT_EQ(doctor::leading_size("12, of which"), Bytes{12});
  EXPECT_EQ(doctor::leading_size("9223372036854775807"), std::nullopt);
}

TEST(LogEvents, HugeKernelReportDoesNotOverflow) {
  const std::string most = "70368744177664";  // pages, of 64 KiB: 2^62 bytes each
  const auto findings = findings_of(
      {"python3 invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
       fmt::format("active_anon:{0} inactive_anon:{0} isolated_anon:0", most),
       fmt::format("active_file:{0} inactive_file:{0} unevictable:{0}", most),
       fmt::format("slab_reclaimable:{0} slab_unreclaimable:{0}", most),
       fmt::format("free:{0} free_pcp:0 free_cma:0", most), "DMA: 1*64kB (U) = 64kB", "1 pages RAM",
       fmt::format("{} pages reserved", most),
       "Out of memory: Killed process 7 (python3) total-vm:9kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB"});
  EXPECT_EQ(findings.size(), 1U);
}

TEST(LogEvents, SeparatesGroupsVictimsAndCauses) {
  const auto kill = [](const std::string& group, int pid) {
    return fmt::format(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg={0},task_memcg={0},task=python3,pid={"
        "1},uid=0",
        group, pid);
  };
  EXPECT_EQ(findings_of({kill("/docker/a", 1), kill("/docker/b", 2)}).size(), 2U);
  const auto earlyoom = [](const std::string& name) {
    return "sending SIGTERM to process 4321 uid 1000 \"" + name + "\": badness 800, VmRSS 3456 MiB";
  };
  EXPECT_EQ(findings_of({earlyoom("python3.10 -m"), earlyoom("Isolated Web Co")}).size(), 2U);
  const std::string own =
      "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 4.00 GiB total capacity; 3.35 "
      "GiB already allocated; 0 bytes free; 3.41 GiB reserved in total by PyTorch)";
  const std::string other =
      "RuntimeError: CUDA out of memory. Tried to allocate 8.13 GiB (GPU 0; 10.76 GiB total capacity; 643.57 "
      "MiB already allocated; 8.20 GiB free; 1.00 GiB reserved in total by PyTorch)";
  EXPECT_EQ(findings_of({own, "x", other}).size(), 2U);
  EXPECT_EQ(findings_of({own, "x", own}).size(), 1U);
}

TEST(LogEvents, ReportsLargerOfTwoKillsWithOneName) {
  const auto killed = [](int pid, const std::string& size) {
    return fmt::format(
        "Out of memory: Killed process {} (python3) total-vm:9000000kB, anon-rss:{}kB, file-rss:0kB", pid,
        size);
  };
  const Finding finding = finding_in({killed(100, "10"), killed(200, "8000000")});
  EXPECT_EQ(finding.times, 2);
  EXPECT_EQ(figure(finding, "anonymous_bytes"), 8000000LL * 1024);
}

// One kill with further lines of the kernel about it.
TEST(LogEvents, ReaperAndGroupLinesAreNotKills) {
  only_of(
      {"Memory cgroup out of memory: Killed process 8 (app) total-vm:1000kB, anon-rss:900kB, file-rss:0kB",
       "Tasks in /kubepods/pod1 are going to be killed due to memory.oom.group set",
       "oom_reaper: reaped process 8 (app), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"});
}

// Kernels of Android devices reap each process that SIGKILL ends, as when a user closes an app.
TEST(LogEvents, ReaperOfAndroidIsNoKill) {
  const std::string reaped =
      "[   37.29] oom_reaper: reaped process 8 (app), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB";
  EXPECT_EQ(only_of({reaped}).id, "kernel-oom-kill");
  for (const char* android : {"[    5.10] healthd: battery l=50 v=4000 t=25.0 h=2 st=2 c=-100 chg=a",
                              "[    5.20] add_to_oom_reaper: 3 callbacks suppressed",
                              "[    5.30] type=1400 audit(1.2:3): avc: denied { read } for comm=\"app\" "
                              "scontext=u:r:untrusted_app:s0 tcontext=u:object_r:vendor_file:s0"}) {
    EXPECT_TRUE(findings_of({android, reaped}).empty()) << android;
    EXPECT_EQ(
        only_of({android, "Out of memory: Killed process 8 (app) total-vm:1000kB, anon-rss:900kB", reaped})
            .id,
        "kernel-oom-kill");
  }
}

// The lines of CUDA's own allocator. One JSON record contains them all, and has one line number.
TEST(LogEvents, ReadsMultiLineMessageInOneRecord) {
  const Finding finding = only_of(
      {R"({"level": "error", "msg": "Allocation on device 0 would exceed allowed memory. (out of memory)\n)"
       R"(Currently allocated : 14.81 GiB\nRequested : 320.00 MiB\nDevice limit : 15.92 GiB\n)"
       R"(Free (according to CUDA): 0 bytes\n"})"});
  EXPECT_EQ(figure(finding, "requested_bytes"), 320 << 20);
  EXPECT_EQ(figure(finding, "free_bytes"), 0);
}

TEST(LogEvents, ComfyUiMessageIsOneFailure) {
  const Finding finding =
      only_of({"!!! Exception during processing !!! Allocation on device ",
               "Traceback (most recent call last):", "  File \"execution.py\", line 317, in execute",
               "torch.OutOfMemoryError: Allocation on device ", "",
               "Got an OOM, unloading all loaded models.", "Prompt executed in 12.04 seconds"});
  EXPECT_EQ(finding.severity, Severity::severe);
}

TEST(LogEvents, GgmlCacheIsInMemoryOfItsBuffer) {
  const auto host =
      findings_of({"ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 17179869216",
                   "llama_kv_cache_init: failed to allocate buffer for kv cache"});
  ASSERT_EQ(host.size(), 1U);
  EXPECT_EQ(host[0].times, 1);
  EXPECT_THAT(host[0].title, HasSubstr("in the host's memory"));
}

}  // namespace
}  // namespace headroom::test
