// Causes and cures that are computed from the figures of PyTorch, llama.cpp, Ollama, vLLM and the kernel.
#include <fmt/format.h>

#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::HasSubstr;

// The log of llama.cpp when it loads a model of 33 layers.
TEST(LogEvents, ComputesLlamaCppCuresFromItsFigures) {
  const Finding finding =
      only_of({"llama_model_load_from_file_impl: using device CUDA0 (Orin) - 5120 MiB free",
               "print_info: n_layer          = 32", "load_tensors: offloaded 33/33 layers to GPU",
               "load_tensors:        CUDA0 model buffer size =  3300.00 MiB",
               "llama_context: n_ctx         = 8192", "llama_context: n_ubatch      = 512",
               "llama_kv_cache_unified:      CUDA0 KV buffer size =  1024.00 MiB",
               "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 560.00 MiB on device 0: "
               "cudaMalloc failed: out of memory",
               "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560"});
  const auto commands = commands_of(finding);
  // 560 MiB at 100 MiB per layer: 6 of the 33 layers must leave the GPU.
  EXPECT_THAT(commands, testing::Contains("-ngl 27"));
  EXPECT_THAT(commands, testing::Contains("-c 4096"));
  EXPECT_THAT(commands, testing::Contains("-ub 256"));
}

// The log of Ollama's server, followed by that of its runner.
TEST(LogEvents, OllamaCuresUseOllamaSettings) {
  const Finding finding = only_of(
      {"time=2025-09-10T10:11:10.000Z level=INFO source=server.go:431 msg=\"starting llama server\" "
       "cmd=\"/usr/bin/ollama runner --model /blobs/sha256-81 --ctx-size 8192 --batch-size 512 "
       "--n-gpu-layers 33 --parallel 4 --port 44533\"",
       "load_tensors: offloaded 33/33 layers to GPU",
       "load_tensors:        CUDA0 model buffer size =  3300.00 MiB", "llama_context: n_ctx         = 8192",
       "llama_kv_cache_unified:      CUDA0 KV buffer size =  1024.00 MiB",
       "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 560.00 MiB on device 0: cudaMalloc failed: "
       "out of memory",
       "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560",
       "time=2025-09-10T10:11:12.123Z level=ERROR source=sched.go:455 msg=\"error loading llama server\" "
       "error=\"llama runner process has terminated: cudaMalloc failed: out of "
       "memory\\nggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560\""});
  EXPECT_EQ(finding.evidence.size(), 3U);
  EXPECT_EQ(finding.title, "Ollama (ggml) could not allocate its compute buffer of 560.0 MiB on the GPU");
  const auto commands = commands_of(finding);
  // Three of four contexts of 256 MiB are saved; each context has 2048 tokens.
  EXPECT_EQ(finding.cures.at(0).command, "OLLAMA_NUM_PARALLEL=1 ollama serve");
  EXPECT_EQ(finding.cures.at(0).saves, mebibytes(768));
  EXPECT_THAT(commands,
              testing::Contains("/set parameter num_gpu 27  # API: \"options\": {\"num_gpu\": 27}"));
  EXPECT_THAT(commands,
              testing::Contains("/set parameter num_ctx 1024  # API: \"options\": {\"num_ctx\": 1024}"));
  EXPECT_THAT(commands, testing::Contains("OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve"));
  EXPECT_THAT(commands, testing::Each(testing::Not(testing::HasSubstr("-ngl"))));
}

TEST(LogEvents, OllamaRefusalIsOneEventWithHostFigures) {
  const Finding finding = only_of(
      {"time=2026-03-25T09:45:06.861Z level=INFO source=sched.go:484 msg=\"system memory\" total=\"10.0 "
       "GiB\" free=\"4.8 GiB\" free_swap=\"0 B\"",
       "time=2026-03-25T09:45:06.861Z level=INFO source=memory.go:326 msg=\"offload to cpu\" "
       "layers.requested=-1 layers.model=29 layers.offload=0 layers.split=\"\" memory.available=\"[4.8 "
       "GiB]\" memory.required.full=\"5.3 GiB\" memory.required.kv=\"896.0 MiB\"",
       "time=2026-03-25T09:45:06.861Z level=WARN source=server.go:1044 msg=\"model request too large for "
       "system\" requested=\"5.3 GiB\" available=\"4.8 GiB\" total=\"10.0 GiB\" free=\"4.8 GiB\" swap=\"0 "
       "B\"",
       "time=2026-03-25T09:45:06.861Z level=INFO source=sched.go:511 msg=\"Load failed\" "
       "model=/blobs/sha256-66 error=\"model requires more system memory (5.3 GiB) than is available (4.8 "
       "GiB)\"",
       "Error: 500 Internal Server Error: model requires more system memory (5.3 GiB) than is available (4.8 "
       "GiB)"});
  EXPECT_EQ(finding.id, "ollama-out-of-memory");
  EXPECT_THAT(finding.cause, testing::HasSubstr("512.0 MiB larger than the host's free memory"));
  EXPECT_EQ(finding.cures.at(0).saves, mebibytes(448));
  EXPECT_THAT(commands_of(finding), testing::Contains(testing::HasSubstr("fallocate -l 5G")));
}

TEST(LogEvents, RecognizesOllamaByJournalOrDockerPrefix) {
  const std::string ggml = "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560";
  for (const char* prefix :
       {"Feb 21 01:41:02 orin ollama[402476]: ", "ollama  | ", "[pod/ollama-7d/ollama] "}) {
    const Finding finding = finding_in({prefix + ggml});
    EXPECT_THAT(commands_of(finding), testing::Contains(testing::HasSubstr("num_ctx"))) << prefix;
  }
  EXPECT_THAT(commands_of(findings_of({ggml}).at(0)),
              testing::Each(testing::Not(testing::HasSubstr("num_"))));
}

TEST(LogEvents, ComputesLayersThatFit) {
  const Finding finding =
      finding_in({"llama_model_load_from_file_impl: using device CUDA0 (Orin) - 2048 MiB free",
                  "print_info: n_layer          = 32",
                  "alloc_tensor_range: failed to allocate CUDA0 buffer of size 4294967296"});
  EXPECT_THAT(commands_of(finding), testing::Contains("-ngl 16"));
}

TEST(LogEvents, ComputesVllmCuresFromItsFigures) {
  const auto cures = [](const std::string& line) {
    const auto findings =
        findings_of({"INFO 04-20 10:11:12 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: "
                     "model='m', max_seq_len=32768, download_dir=None",
                     line});
    return findings.empty() ? std::vector<std::string>{} : commands_of(findings[0]);
  };
  EXPECT_THAT(cures("ValueError: Free memory on device (3.21/7.44 GiB) on startup is less than desired GPU "
                    "memory utilization (0.9, 6.7 GiB)."),
              testing::Contains("--gpu-memory-utilization 0.43"));
  EXPECT_THAT(cures("ValueError: No available memory for the cache blocks."),
              testing::Contains("--max-model-len 16384"));
  EXPECT_THAT(
      cures("RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests."),
      testing::Contains("--max-num-seqs 128"));
  EXPECT_EQ(cures("ValueError: The model's max seq len (32768) is larger than the maximum number of tokens "
                  "that can be stored in KV cache (12480).")
                .front(),
            "--max-model-len 12480");
}

TEST(LogEvents, FirstPyTorchCureMatchesCause) {
  const auto first = [](const std::string& line) { return findings_of({line}).at(0).cures.at(0).command; };
  const std::string v1 = "RuntimeError: CUDA out of memory. Tried to allocate ";
  // Fragmentation: 1.5 GiB are idle, and the request is far smaller.
  EXPECT_EQ(first(v1 + "200.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 20.00 MiB "
                       "free; 7.50 GiB reserved in total by PyTorch)"),
            "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:100");
  // Request larger than the GPU: 16 GiB, with 6 GiB free and 0.5 GiB idle.
  EXPECT_EQ(first(v1 + "16.00 GiB (GPU 0; 8.00 GiB total capacity; 1.00 GiB already allocated; 6.00 GiB "
                       "free; 1.50 GiB reserved in total by PyTorch)"),
            "batch_size = max(1, int(0.40 * batch_size))");
  // The rest of the system.
  EXPECT_EQ(first(v1 + "2.00 MiB (GPU 0; 3.79 GiB total capacity; 654.97 MiB already allocated; 6.00 MiB "
                       "free; 666.00 MiB reserved in total by PyTorch)"),
            "headroom top");
}

TEST(LogEvents, ExhaustedShareIsNotLackOfMemory) {
  const auto findings = findings_of(
      {"RuntimeError: CUDA out of memory. Tried to allocate 200.00 MiB (GPU 0; 7.79 GiB total capacity; 3.50 "
       "GiB already allocated; 3.20 GiB free; 3.72 GiB allowed; 3.60 GiB reserved in total by PyTorch)"});
  EXPECT_THAT(findings.at(0).cause,
              HasSubstr("used up its own share of the GPU (3.72 GiB), while 3.20 GiB were free"));
  // 3.60 GiB reserved and 0.20 GiB requested of 7.79 GiB; 3.60 + 3.20 GiB are available.
  EXPECT_EQ(findings[0].cures.at(0).command, "torch.cuda.set_per_process_memory_fraction(0.49)");
  EXPECT_THAT(findings[0].cures[0].what, HasSubstr("needs 0.49 of the GPU, up to 0.87 are free (now 0.48)"));
}

// PyTorch allocates 20 MiB for a request of 1 to 10 MiB, and 2 MiB for a smaller one. The share is 1.97 GiB
// plus that block, of 4 GiB.
TEST(LogEvents, ShareCountsBlockThatPyTorchAllocates) {
  const auto command = [](const char* requested) {
    return findings_of({fmt::format("RuntimeError: CUDA out of memory. Tried to allocate {} (GPU 0; 4.00 GiB "
                                    "total capacity; 1.95 GiB already allocated; 1.90 GiB free; 1.97 GiB "
                                    "allowed; 1.97 GiB reserved in total by PyTorch)",
                                    requested)})
        .at(0)
        .cures.at(0)
        .command;
  };
  EXPECT_EQ(command("8.00 MiB"), "torch.cuda.set_per_process_memory_fraction(0.51)");
  EXPECT_EQ(command("512.00 KiB"), "torch.cuda.set_per_process_memory_fraction(0.50)");
}

TEST(LogEvents, SmallerBatchMustFitInAllowedShare) {
  const auto findings = findings_of(
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity "
       "of 15.77 GiB of which 11.00 GiB is free. 4.00 GiB allowed; Of the allocated memory 3.80 GiB is "
       "allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated."});
  EXPECT_EQ(findings.at(0).cures.at(0).command, "torch.cuda.set_per_process_memory_fraction(0.26)");
  // 4.00 - 3.80 GiB are 80 % of the request.
  EXPECT_THAT(commands_of(findings[0]), testing::Contains("batch_size = max(1, int(0.80 * batch_size))"));
}

// 7.00 GiB reserved and 552 MiB requested of 7.60 GiB, of which 560 MiB are free: at most 0.99 is available.
TEST(LogEvents, ShareIsLimitedByFreeMemory) {
  const auto findings = findings_of(
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 552.00 MiB. GPU 0 has a total capacity "
       "of 7.60 GiB of which 560.00 MiB is free. 7.20 GiB allowed; Of the allocated memory 7.00 GiB is "
       "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."});
  EXPECT_THAT(findings.at(0).cause, HasSubstr("used up its own share"));
  EXPECT_EQ(findings[0].cures.at(0).command, "torch.cuda.set_per_process_memory_fraction(0.99)");
  EXPECT_THAT(findings[0].cures[0].what, HasSubstr("at most 0.99 of the GPU"));
}

// Messages that the end of a log or a logger's line limit cut off.
TEST(LogEvents, ReadsFiguresOfTruncatedMessage) {
  const std::string head =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a total capacity "
      "of 29.97 GiB of which 201.12 MiB is free. ";
  const std::string one = "Process 2345 has 10.25 GiB memory in use. ",
                    other = "Process 34567 has 4.50 GiB memory in use. ";
  const auto finding = [&](const std::string& tail) { return findings_of({head + tail}).at(0); };
  // 29.97 GiB less 201.12 MiB less 14.75 GiB.
  const Finding of_both = finding(one + other + "Including non-Py");
  EXPECT_THAT(of_both.cause, HasSubstr("at most 15.02 GiB, because other processes held 14.75 GiB"));
  EXPECT_EQ(of_both.confidence, Confidence::possible);
  EXPECT_EQ(figure(of_both, "other_processes_bytes"), 15837691904);
  EXPECT_EQ(of_both.cures.at(0).saves, Bytes{15837691904});
  const Finding of_many = finding(one + one + other + "Including non-PyTorch memory, this pro");
  EXPECT_THAT(of_many.cause,
              HasSubstr("Other processes held 25.00 GiB of the GPU, this process at most 4.77 GiB"));
  // One of the processes may be the program itself, so no cure ends a process.
  const Finding named = finding(one + other);
  EXPECT_EQ(figure(named, "other_processes_bytes"), -1);
  EXPECT_THAT(named.cause, HasSubstr("does not say which process held the memory"));
  // The message has the process's own memory, but not the part that is tensors.
  const std::string own = "Including non-PyTorch memory, this process has ";
  EXPECT_THAT(finding(other + own + "25.10 GiB memory in use. Of the allo").cause,
              HasSubstr("The program itself filled the memory: it held 25.10 GiB of 29.97 GiB"));
  EXPECT_THAT(finding(one + one + own + "9.20 GiB memory in use. Of the allo").cause,
              HasSubstr("Other processes held 20.50 GiB of the GPU, this process 9.20 GiB."));
  EXPECT_THAT(commands_of(of_both), testing::Contains("batch_size = max(1, int(0.51 * batch_size))"));
}

// The batch size follows from the free memory: 51.23 GiB free for a request of 124.68 GiB on a GPU of 80
// GiB.
TEST(LogEvents, SmallerBatchFollowsFromFreeMemory) {
  const auto findings =
      findings_of({"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 124.68 GiB. GPU 0 has a "
                   "total capacity of 79.25 GiB of which 51.23 GiB is free. Of the allocated memory 24.00 "
                   "GiB is allocated by PyTorch, and 3.14 GiB is reserved by PyTorch but unallocated."});
  EXPECT_EQ(findings.at(0).cures.at(0).command, "batch_size = max(1, int(0.43 * batch_size))");
}

TEST(LogEvents, HostMemoryFailureHasNoGpuCures) {
  const auto findings =
      findings_of({"ggml_gallocr_reserve_n: failed to allocate CPU buffer of size 84940800"});
  EXPECT_THAT(findings.at(0).title, HasSubstr("in the host's memory"));
  for (const Cure& cure : findings[0].cures) EXPECT_THAT(cure.command, testing::Not(HasSubstr("-ngl")));
}

TEST(LogEvents, OldKernelReportNamesControlGroup) {
  const Finding finding = finding_in(
      {"python3 invoked oom-killer: gfp_mask=0x0", "memory: usage 2097152kB, limit 2097152kB, failcnt 1",
       "memory+swap: usage 2500000kB, limit 4194304kB, failcnt 0",
       "Memory cgroup out of memory: Kill process 8 (app) score 1000 or sacrifice child",
       "Killed process 8 (app) total-vm:1000kB, anon-rss:900kB, file-rss:0kB"});
  // Two GiB of swap stay; the memory limit grows by half a GiB.
  EXPECT_THAT(commands_of(finding),
              testing::Contains("docker update --memory=2560m --memory-swap=4608m CONTAINER"));
}

// A name from a log is quoted as one word of a command, whatever it contains.
TEST(LogEvents, NamesFromLogsAreQuotedInCommands) {
  EXPECT_THAT(commands_of(findings_of({"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a; "
                                       "rm -rf ~;#/b,task_memcg=/x,task=evil,pid=77,uid=0"})
                              .at(0)),
              testing::Contains("echo SIZE | sudo tee '/sys/fs/cgroup/a; rm -rf ~;#/b/memory.max'"));
  EXPECT_THAT(commands_of(findings_of({"systemd-oomd[612]: Killed /system.slice/a\\x2db.service due to "
                                       "memory pressure for /system.slice being 62.10% > 50.00% for > 20s"})
                              .at(0)),
              testing::Contains("sudo systemctl set-property 'a\\x2db.service' ManagedOOMPreference=avoid"));
  EXPECT_THAT(
      commands_of(
          findings_of({"sending SIGTERM to process 4 uid 1000 \"a'; rm -rf ~; '\": badness 800"}).at(0)),
      testing::Contains("earlyoom --avoid 'a'\\''; rm -rf ~; '\\'''"));
  EXPECT_THAT(
      commands_of(
          findings_of({"ImportError: /opt/x y/libgomp.so.1: cannot allocate memory in static TLS block"})
              .at(0)),
      testing::Contains("LD_PRELOAD='/opt/x y/libgomp.so.1'"));
}

// RAM less a reserve of 15 %, less the other processes, less memory without an owner.
TEST(LogEvents, LimitForLargestProcessLeavesRoomForOthers) {
  const Finding finding = finding_in(
      {"python3 invoked oom-killer: gfp_mask=0x0", "active_anon:0 inactive_anon:180000 isolated_anon:0",
       " active_file:0 inactive_file:0 isolated_file:0", " unevictable:0 dirty:0 writeback:0",
       " slab_reclaimable:0 slab_unreclaimable:0", " free:20000 free_pcp:0 free_cma:0", "1000000 pages RAM",
       "0 pages reserved",
       "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
       "[   4242]  1000  4242  5000000   150000  4096000        0             0 python3",
       "[   4300]  1000  4300   200000    30000   204800        0             0 gnome-shell",
       "Out of memory: Killed process 4242 (python3) total-vm:20000000kB, anon-rss:600000kB, file-rss:0kB"});
  // Of 850,000 pages, the other processes hold 30,000, and 800,000 have no owner.
  EXPECT_THAT(commands_of(finding), testing::Contains("headroom run --limit 78MiB -- COMMAND"));
  EXPECT_THAT(finding.cures,
              testing::Contains(testing::Field(&Cure::what,
                                               "set a limit for python3, so that only it fails: with this "
                                               "size, 15 % of RAM stays free for other programs")));
  EXPECT_EQ(finding.cures.at(0).saves, Bytes{800'000LL * 4096});
}

TEST(LogEvents, CachedInOldPyTorchMeansIdle) {
  const Finding finding =
      finding_in({"RuntimeError: CUDA out of memory. Tried to allocate 32.00 MiB (GPU 0; 7.79 GiB total "
                  "capacity; 6.04 GiB already allocated; 21.00 MiB free; 1.25 GiB cached)"});
  EXPECT_THAT(finding.cause, HasSubstr("Fragmentation"));
  EXPECT_EQ(finding.cures.at(0).command, "torch.cuda.empty_cache()");
}

}  // namespace
}  // namespace headroom::test
