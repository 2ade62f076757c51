// Messages that users of GPU libraries, frameworks and servers posted, with changed names, sizes and paths.
// The doctor missed or misread them at first.
#include <algorithm>

#include "doctor/log/message_text.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

TEST(LogReportedWordings, RecognizesGgmlOnAmd) {
  const Finding alone =
      only_of({"ROCm error: out of memory",
               "  current device: 1, in function alloc at ggml/src/ggml-cuda/ggml-cuda.cu:420"});
  EXPECT_EQ(alone.id, "ggml-out-of-memory");
  EXPECT_EQ(figure(alone, "gpu"), 1);
  const Finding diffusion = only_of({"[ERROR] ggml_extend.hpp:70   - ROCm error: out of memory",
                                     "[ERROR] ggml_extend.hpp:70   -   current device: 0, in function alloc "
                                     "at ggml/src/ggml-cuda/ggml-cuda.cu:420"});
  EXPECT_EQ(diffusion.severity, Severity::severe);
  EXPECT_THAT(commands_of(diffusion), Contains("--vae-tiling"));
  // Earlier figures also apply to a message of two lines.
  const Finding counted = only_of({"llama_context: n_ctx         = 8192", "ROCm error: out of memory",
                                   "  current device: 0, in function alloc at ggml-cuda.cu:420"});
  EXPECT_THAT(commands_of(counted), Contains("-c 4096"));
  EXPECT_EQ(only_of({"ROCm error: out of memory"}).id, "cuda-out-of-memory");
}

TEST(LogReportedWordings, GgmlAssertsAreHostMemory) {
  for (const std::string line :
       {"GGML_ASSERT: /src/whisper.cpp/ggml-backend.c:455: data != NULL && \"failed to allocate buffer\"",
        "/src/ggml/src/ggml.c:1500: GGML_ASSERT(ctx->mem_buffer != NULL) failed"}) {
    const Finding finding = only_of({line});
    EXPECT_EQ(finding.id, "ggml-out-of-memory") << line;
    EXPECT_THAT(finding.title, HasSubstr("in the host's memory")) << line;
  }
}

TEST(LogReportedWordings, JoinsGgmlLinesAndKeepsExactSize) {
  const Finding finding =
      only_of({"whisper_model_load: type          = 1 (tiny)",
               "ggml_aligned_malloc: insufficient memory (attempted to allocate 3072.11 MB)",
               "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 3221340160",
               "alloc_tensor_range: failed to allocate CPU buffer of size 3221340160"});
  EXPECT_EQ(figure(finding, "requested_bytes"), 3221340160);
}

TEST(LogReportedWordings, RefusedPinnedMemoryOfVulkanIsANote) {
  const std::vector<std::string> two{"llama_model_loader: loaded meta data with 20 key-value pairs",
                                     "ggml_vulkan: Failed to allocate pinned memory.",
                                     "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory"};
  const std::vector<std::string> one{
      "W ggml_vulkan: Failed to allocate pinned memory (Requested buffer size exceeds device buffer size "
      "limit: ErrorOutOfDeviceMemory)"};
  for (const auto& lines : {two, one}) {
    const Finding finding = only_of(lines);
    EXPECT_EQ(finding.id, "ggml-pinned-memory");
    EXPECT_EQ(finding.severity, Severity::note);
  }
  EXPECT_EQ(
      figure(
          only_of(
              {"ggml_cuda_host_malloc: failed to allocate 1500,50 MiB of pinned memory: invalid argument"}),
          "requested_bytes"),
      1573388288);
  const Finding triton =
      only_of({"W1118 11:00:00.000 12 pinned_memory_manager.cc:271] failed to allocate pinned system memory: "
               "no pinned memory pool, falling back to non-pinned system memory"});
  EXPECT_EQ(triton.severity, Severity::note);
  EXPECT_THAT(triton.title, HasSubstr("Triton"));
  const Finding no_gpu =
      only_of({"ggml_cuda_host_malloc: failed to allocate 500.00 MiB of pinned memory: no CUDA-capable "
               "device is detected"});
  EXPECT_THAT(no_gpu.cause, HasSubstr("Memory did not run out"));
  EXPECT_THAT(commands_of(no_gpu), Each(Not(HasSubstr("NO_PINNED"))));
}

TEST(LogReportedWordings, JoinsDriverErrorWithGgml) {
  const std::string mesa =
      "MESA: error: ../src/intel/vulkan/anv_device.c:4200: VK_ERROR_OUT_OF_DEVICE_MEMORY";
  const Finding finding = only_of({mesa, "ggml_vulkan: Device memory allocation of size 1073741824 failed.",
                                   "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory"});
  EXPECT_EQ(finding.id, "ggml-out-of-memory");
  EXPECT_EQ(only_of({mesa}).id, "vulkan-out-of-memory");
  // An error of another program is not joined.
  const std::string failed = "vkAllocateMemory failed: VK_ERROR_OUT_OF_DEVICE_MEMORY",
                    ggml = "ggml_vulkan: Device memory allocation of size 1073741824 failed.",
                    cuda =
                        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 300.00 MiB on device 0: "
                        "cudaMalloc failed: out of memory",
                    game = "Mar 02 10:00:00 pc game[1]: ", llama = "Mar 02 10:00:05 pc llama[2]: ";
  EXPECT_EQ(findings_of({game + failed, llama + cuda}).size(), 2U);
  EXPECT_EQ(findings_of({game + failed, llama + ggml}).size(), 2U);
  EXPECT_EQ(findings_of({game + mesa, llama + ggml}).size(), 2U);
  EXPECT_EQ(only_of({llama + failed, llama + ggml}).id, "ggml-out-of-memory");
}

TEST(LogReportedWordings, BufferSizeLimitIsNotFullMemory) {
  const Finding finding =
      only_of({"ggml_vulkan: Requested buffer size exceeds device buffer size limit: ErrorOutOfDeviceMemory",
               "ggml_gallocr_reserve_n_impl: failed to allocate Vulkan1 buffer of size 6442450944",
               "graph_reserve: failed to allocate compute buffers"});
  EXPECT_THAT(finding.cause, HasSubstr("limit for a single allocation"));
  EXPECT_THAT(finding.title, HasSubstr("on GPU 1"));
  EXPECT_THAT(commands_of(finding).at(0), HasSubstr("-ub"));
}

TEST(LogReportedWordings, CountsCacheOfAllGpus) {
  const Finding finding =
      only_of({"llama_kv_cache_init:      CUDA0 KV buffer size =   300.00 MiB",
               "llama_kv_cache_init:      CUDA1 KV buffer size =    20.00 MiB",
               "llama_new_context_with_model: KV self size  =  320.00 MiB, K (f16):  160.00 MiB",
               "llama_new_context_with_model: pipeline parallelism enabled (n_copies=4)",
               "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048.00 MiB on device 0: cudaMalloc "
               "failed: out of memory",
               "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 2147483648"});
  EXPECT_EQ(figure(finding, "kv_cache_bytes"), mebibytes(320).count);
  EXPECT_THAT(commands_of(finding).at(0), HasSubstr("-ub"));
  EXPECT_THAT(commands_of(finding), Contains(HasSubstr("GGML_SCHED_MAX_COPIES=1")));
  const Finding of_today = only_of(
      {"llama_kv_cache:      CUDA0 KV buffer size =   300.00 MiB",
       "llama_kv_cache: size =  320.00 MiB (  4096 cells,  32 layers,  1/1 seqs), K (f16):  160.00 MiB",
       "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 2147483648"});
  EXPECT_EQ(figure(of_today, "kv_cache_bytes"), mebibytes(320).count);
}

TEST(LogReportedWordings, StableDiffusionPoolHasNoLlamaFlags) {
  const Finding pool = only_of({"[INFO ] stable-diffusion.cpp:1400 - decoding 1 latents",
                                "ggml_new_object: not enough space in the context's memory pool (needed "
                                "20000000, available 19000000)"});
  EXPECT_THAT(commands_of(pool), Contains("--vae-tiling"));
  EXPECT_THAT(commands_of(pool), Each(Not(HasSubstr("-ub"))));
  const Finding wrong =
      only_of({"ggml_aligned_malloc: insufficient memory (attempted to allocate 22320886367328.45 MB)",
               "GGML_ASSERT: /src/stable-diffusion.cpp/ggml/src/ggml.c:4700: ctx->mem_buffer != NULL"});
  EXPECT_THAT(commands_of(wrong), Each(Not(HasSubstr("-ub"))));
}

TEST(LogReportedWordings, ReadsSizeAndGpuFromFaiss) {
  const Finding finding =
      only_of({"RuntimeError: Error in virtual void* faiss::gpu::StandardGpuResourcesImpl::allocMemory() at "
               "/src/faiss/gpu/StandardGpuResources.cpp:440: Error: 'err == cudaSuccess' failed: Failed to "
               "cudaMalloc 268435456 bytes on device 2 (error 2 out of memory"});
  EXPECT_EQ(figure(finding, "requested_bytes"), 268435456);
  EXPECT_EQ(figure(finding, "gpu"), 2);
  EXPECT_THAT(commands_of(finding), Each(Not(HasSubstr("drop_caches"))));
}

TEST(LogReportedWordings, WorkerGetsCuresOfItsServer) {
  const Finding finding = only_of({"(VllmWorker rank=3 pid=90) Cuda failure 'out of memory'"});
  EXPECT_THAT(commands_of(finding), Contains(HasSubstr("--gpu-memory-utilization")));
  EXPECT_THAT(commands_of(finding), Each(Not(HasSubstr("drop_caches"))));
}

TEST(LogReportedWordings, RecognizesOpenclCodesInOtherWords) {
  for (const std::string line :
       {"Error CL_MEM_OBJECT_ALLOCATION_FAILURE when calling clEnqueueNDRangeKernel for kernel 1.",
        "clEnqueueNDRange(0): CL_MEM_OBJECT_ALLOCATION_FAILURE"}) {
    EXPECT_EQ(only_of({line}).severity, Severity::severe) << line;
    EXPECT_EQ(only_of({line}).id, "opencl-out-of-memory") << line;
  }
  EXPECT_EQ(figure(only_of({"W: ocl_notify error: CL_MEM_OBJECT_ALLOCATION_FAILURE error executing "
                            "CL_COMMAND_NDRANGE_KERNEL on GeForce (Device 0).",
                            "clEnqueueNDRange(0): CL_MEM_OBJECT_ALLOCATION_FAILURE"}),
                   "requested_bytes"),
            -1);
  for (const std::string line :
       {"clEnqueueNDRangeKernel failed with error code -5 (Out of resources)",
        "clEnqueueReadBuffer(): CL_OUT_OF_RESOURCES",
        "RuntimeError: UR backend failed. UR backend returns:40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)"})
    EXPECT_EQ(only_of({line}).severity, Severity::warning) << line;
  EXPECT_EQ(
      only_of({"UR backend failed. UR backend returns:39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"}).severity,
      Severity::severe);
}

TEST(LogReportedWordings, ReadsTensorflowOnAmd) {
  const Finding amd =
      only_of({"E tensorflow/stream_executor/rocm/rocm_driver.cc:600] failed to allocate 500.00M (524288000 "
               "bytes) from device: HIP_ERROR_OutOfMemory"});
  EXPECT_EQ(amd.id, "tensorflow-out-of-memory");
  EXPECT_EQ(figure(amd, "requested_bytes"), 524288000);
}

// The log level says that this line is not an error. A later failure is.
TEST(LogReportedWordings, TensorflowInfoLineIsAWarning) {
  const std::string probe =
      "2024-01-01 10:00:00.1: I tensorflow/stream_executor/cuda/cuda_driver.cc:831] failed to allocate 8.00G "
      "(8589934592 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory";
  EXPECT_EQ(only_of({probe}).severity, Severity::warning);
  const Finding failed =
      findings_of({probe, "ResourceExhaustedError: failed to allocate memory [Op:AddV2]"}).at(0);
  EXPECT_EQ(failed.severity, Severity::severe);
}

TEST(LogReportedWordings, IgnoresTruncatedSize) {
  const std::string begin =
      "CUDA out of memory. Tried to allocate 448.00 MiB. GPU 3 has a total capacity of ";
  for (const std::string rest : {"95.00", "95.00 GiB of which 4", "9"}) {
    const Finding finding = only_of({begin + rest});
    EXPECT_EQ(finding.id, "pytorch-out-of-memory") << rest;
    EXPECT_EQ(figure(finding, "requested_bytes"), mebibytes(448).count) << rest;
    EXPECT_NE(finding.confidence, Confidence::certain) << rest;
    EXPECT_EQ(figure(finding, "free_bytes"), -1) << rest;
    EXPECT_THAT(finding.title, Not(HasSubstr(" B"))) << rest;
  }
  EXPECT_EQ(only_of({"RuntimeError: CUDA out of memory. Tried to allocate 4"}).id, "pytorch-out-of-memory");
  EXPECT_EQ(doctor::size_with_unit("147"), std::nullopt);
  EXPECT_EQ(doctor::size_with_unit("147kB, file-rss:0kB"), Bytes{147 << 10});
  EXPECT_EQ(doctor::size_with_unit("0 bytes"), Bytes{0});
}

TEST(LogReportedWordings, DoesNotBlameTensorsThatAreNotAllocated) {
  const Finding small =
      only_of({"RuntimeError: XPU out of memory. Tried to allocate 1.00 GiB (GPU 0; 15.00 GiB total "
               "capacity; 900.00 MiB already allocated; 900.00 MiB reserved in total by PyTorch)"});
  EXPECT_THAT(small.cause, HasSubstr("own tensors did not fill"));
  EXPECT_THAT(commands_of(small), Each(Not(HasSubstr("half()"))));
  const Finding full =
      only_of({"RuntimeError: XPU out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.00 GiB total "
               "capacity; 12.90 GiB already allocated; 12.90 GiB reserved in total by PyTorch)"});
  EXPECT_THAT(full.cause, HasSubstr("own tensors filled"));
}

// A few per cent of a large GPU do not count as free memory. A logger's level is not another program.
TEST(LogReportedWordings, GpuWithFewFreePercentIsFull) {
  const std::string message =
      "HIP out of memory. Tried to allocate 100.00 MiB. GPU 0 has a total capacity of 20.00 GiB of which "
      "500.00 MiB is free. Of the allocated memory 16.00 GiB is allocated by PyTorch, and 150.00 MiB is "
      "reserved by PyTorch but unallocated.";
  const auto findings = findings_of({"torch.OutOfMemoryError: " + message,
                                     "ERROR    | 2024-01-02 10:00:00 | app.trainer:run:12 - " + message});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].cause, HasSubstr("own tensors filled"));
  EXPECT_THAT(commands_of(findings[0]), Contains("model.half()"));
}

// A message of several lines uses earlier facts about the program, and its own figures.
TEST(LogReportedWordings, BrokenMessageKeepsFactsAboutProgram) {
  const std::size_t at = kTorch.find("91.25 MiB");
  const Finding finding = only_of({"INFO 03-10 10:11:11 [config.py:1604] Using max model len 8192",
                                   kTorch.substr(0, at), kTorch.substr(at)});
  EXPECT_THAT(finding.title, HasSubstr("vLLM"));
  EXPECT_THAT(commands_of(finding), Contains("--max-model-len 4096"));
  EXPECT_EQ(figure(finding, "free_bytes"), figure(findings_of({kTorch}).at(0), "free_bytes"));
}

TEST(LogReportedWordings, TensorrtLlmGetsItsOwnCures) {
  const std::string error =
      "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, stream): out of memory "
      "(/src/tllmBuffers.h:100)";
  for (const std::string& line :
       {error, "| llama | 1 | UNAVAILABLE: Internal: unexpected error: " + error + " |"}) {
    const Finding finding = only_of({line});
    EXPECT_THAT(finding.title, HasSubstr("TensorRT-LLM")) << line;
    EXPECT_THAT(commands_of(finding), Contains(HasSubstr("kv_cache_free_gpu_mem_fraction"))) << line;
    EXPECT_THAT(commands_of(finding), Each(Not(HasSubstr("trtexec")))) << line;
  }
  EXPECT_EQ(only_of({"[TensorRT-LLM][ERROR] maxTokensInPagedKvCache must be large enough to process at least "
                     "1 sequence to completion"})
                .severity,
            Severity::severe);
}

TEST(LogReportedWordings, ReadsShareGpuAndPreemptionsOfServers) {
  const Finding context =
      only_of({"Memory profiling results: total_gpu_memory=24.00GiB kv_cache_size=2.00GiB "
               "gpu_memory_utilization=0.80",
               "The model's max seq len (20000) is larger than the maximum number of tokens that can be "
               "stored in KV cache (15000)."});
  EXPECT_THAT(commands_of(context), Contains("--gpu-memory-utilization 0.90"));
  const Finding start =
      only_of({"ValueError: Free memory on device cuda:2 (19.00/22.00 GiB) on startup is less than desired "
               "GPU memory utilization (0.9, 19.80 GiB)."});
  EXPECT_EQ(figure(start, "gpu"), 2);
  const Finding blocks =
      only_of({"ERROR [engine.py:366]     raise ValueError(\"No available memory for the cache blocks. \"",
               "ERROR [engine.py:366] ValueError: No available memory for the cache blocks. Try increasing "
               "`gpu_memory_utilization`"});
  EXPECT_EQ(figure(blocks, "cache_blocks"), 0);
  const Finding preempted =
      only_of({"WARNING [scheduler.py:1141] Sequence group 12 is preempted by PreemptionMode.RECOMPUTE mode "
               "because there is not enough KV cache space. total_num_cumulative_preemption=51"});
  EXPECT_EQ(preempted.severity, Severity::warning);
  EXPECT_EQ(figure(preempted, "preemptions"), 51);
  const Finding tgi =
      only_of({"Error: Warmup(Generation(\"Not enough memory to handle 12000 total tokens with 2 prefill "
               "tokens.\"))"});
  EXPECT_EQ(tgi.cures.at(0).command, "--max-batch-total-tokens 6000");
}

TEST(LogReportedWordings, UsesXlaStepSize) {
  const Finding step =
      only_of({"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
               "allocate 8000000 bytes.",
               "BufferAssignment OOM Debugging.", "             parameter allocation:    8.00MiB",
               "                 total allocation:   16.00MiB"});
  EXPECT_EQ(figure(step, "step_bytes"), mebibytes(16).count);
  EXPECT_THAT(step.cause, HasSubstr("16.0 MiB in total"));
  EXPECT_TRUE(findings_of({"disk: total allocation: 16.00MiB"}).empty());
}

TEST(LogReportedWordings, ReadsOtherFigures) {
  const Finding openvino =
      only_of({"Exceeded max size of memory allocation: Required 20000000000 bytes but memory size is "
               "16000000000 bytes"});
  EXPECT_EQ(figure(openvino, "total_bytes"), 16000000000);
  const Finding node = only_of(
      {"onnx runtime error 6: Non-zero status code returned while running Mul node. Name:\\'Mul_12\\' Status "
       "Message: bfc_arena.cc:368 Failed to allocate memory for requested buffer of size 1000000000"});
  EXPECT_EQ(text_figure(node, "node"), "Mul_12");
}

TEST(LogReportedWordings, SglangWeightsMayExceedItsShare) {
  const std::string error = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.";
  for (const std::string budget :
       {"[2025-05-12 10:11:12 TP0] max_total_num_tokens=-2817",
        "max_total_num_tokens=-2817, max_prefill_tokens=16384, context_len=4096"}) {
    const Finding finding = only_of({budget, "Traceback (most recent call last):", error});
    EXPECT_EQ(finding.id, "sglang-out-of-memory");
    EXPECT_THAT(finding.title, HasSubstr("weights are larger than its share of the GPU: -2817 tokens"));
    EXPECT_EQ(figure(finding, "token_budget"), -2817);
    EXPECT_THAT(commands_of(finding).at(0), HasSubstr("--mem-fraction-static"));
    EXPECT_EQ(commands_of(finding).back(), "headroom top");
  }
  // Each of its processes reports it; one report is enough.
  EXPECT_EQ(only_of({"[gpu=0] max_total_num_tokens=-12", "[gpu=1] max_total_num_tokens=-12", error}).id,
            "sglang-out-of-memory");
  EXPECT_THAT(only_of({error}).title, HasSubstr("had no GPU memory left for its key-value cache"));
}

// None of these lines contains the name vLLM.
TEST(LogReportedWordings, RecognizesVllmByLoggerPrefix) {
  for (const std::string preamble :
       {"ERROR 05-12 10:11:12 [core.py:396] ", "(Worker pid=7) ERROR 05-12 10:11:12 [v1/gpu_worker.py:96] "})
    EXPECT_THAT(commands_of(only_of({preamble + kTorch})), Contains(HasSubstr("--gpu-memory-utilization")))
        << preamble;
  for (const std::string preamble :
       {"ERROR 2025-05-12 10:11:12 [train.py:39] ", "[train.py:39] ", "ERROR 05-12 10:11:12 [trainer] "})
    EXPECT_THAT(commands_of(only_of({preamble + kTorch})), Contains("model.half()")) << preamble;
}

// SGLang used layers of vLLM, whose logger wrote to SGLang's log.
TEST(LogReportedWordings, LineOfVllmLoggerDoesNotIdentifyProgram) {
  const std::string borrowed = "WARNING 05-12 10:11:12 [fp8.py:63] dtype=torch.bfloat16";
  EXPECT_THAT(only_of({borrowed, kTorch}).title, HasSubstr("PyTorch ran out"));
}

}  // namespace
}  // namespace headroom::test
