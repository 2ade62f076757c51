// Messages of PyTorch's servers, ggml's programs, Vulkan, OpenCL and others, paired with harmless lines that
// have the same words.
#include <fmt/format.h>

#include <algorithm>

#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

std::string torch_with_free(std::string_view free) {
  return fmt::format(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity "
      "of 7.44 GiB of which {} is free. Including non-PyTorch memory, this process has 5.00 GiB memory in "
      "use. Of the allocated memory 4.50 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch "
      "but unallocated.",
      free);
}

TEST(LogStackWordings, MuchFreeMemoryMeansNotFull) {
  const Finding finding = findings_of({torch_with_free("1.00 GiB")}).at(0);
  EXPECT_EQ(finding.confidence, Confidence::possible);
  EXPECT_THAT(finding.cause, HasSubstr("1.00 GiB were free"));
  EXPECT_THAT(finding.cause, HasSubstr("NvMap"));
  EXPECT_THAT(finding.cause, HasSubstr("set_per_process_memory_fraction"));
  EXPECT_THAT(finding.cause, HasSubstr("another process"));
  EXPECT_EQ(commands_of(finding).at(0), "headroom top");
  EXPECT_THAT(commands_of(finding), Contains(HasSubstr("memory.max")));
  EXPECT_THAT(commands_of(finding), Each(Not(HasSubstr("half()"))));
}

const std::vector<std::string> kVllm = {
    "INFO 03-10 10:11:11 [config.py:1604] Using max model len 32768",
    "ERROR 03-10 10:11:20 [core.py:387]   File \"/usr/lib/python3/dist-packages/vllm/v1/engine/core.py\", "
    "line 378, in run_engine_core",
    "ERROR 03-10 10:11:20 [core.py:387] " + kTorch};

TEST(LogStackWordings, VllmGetsItsOwnCures) {
  const auto findings = findings_of(kVllm);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].title, HasSubstr("vLLM (PyTorch)"));
  const auto commands = commands_of(findings[0]);
  EXPECT_THAT(commands, Contains(HasSubstr("--gpu-memory-utilization")));
  EXPECT_THAT(commands, Contains("--max-model-len 16384"));
  EXPECT_THAT(commands, Contains(HasSubstr("--max-num-seqs")));
  EXPECT_THAT(commands, Contains(HasSubstr("--quantization")));
  EXPECT_THAT(commands, Contains("--tensor-parallel-size 2"));
  for (const char* of_training : {"half()", "inference_mode", "batch_size", "app.py"})
    EXPECT_THAT(commands, Each(Not(HasSubstr(of_training)))) << of_training;
}

// The context length of this line applies to failures of vLLM and of PyTorch inside vLLM.
TEST(LogStackWordings, VllmSettingsApplyToPyTorchErrors) {
  const auto findings =
      findings_of({"INFO 03-10 10:11:12 [core.py:61] Initializing a V1 LLM engine (v0.8.4) with config: "
                   "model='Qwen', dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=1",
                   kVllm[1], kVllm[2]});
  EXPECT_THAT(commands_of(findings.at(0)), Contains("--max-model-len 16384"));
}

// A smaller cache or batch does not help if the weights do not fit.
TEST(LogStackWordings, WeightCuresComeFirstWhileVllmLoads) {
  const std::string begin = "INFO [gpu_model_runner.py:1276] Starting to load model Qwen/Qwen2.5-14B...",
                    end = "INFO [gpu_model_runner.py:1300] Model loading took 5.20 GiB and 3.1 seconds";
  const Finding loading = findings_of({begin, kVllm[1], kVllm[2]}).at(0);
  EXPECT_EQ(commands_of(loading).at(0), "--quantization fp8");
  EXPECT_THAT(loading.cause, HasSubstr("loading the model's weights"));
  const Finding running = findings_of({begin, end, kVllm[1], kVllm[2]}).at(0);
  EXPECT_THAT(commands_of(running).at(0), HasSubstr("--gpu-memory-utilization"));
  EXPECT_THAT(running.cause, Not(HasSubstr("loading")));
}

TEST(LogStackWordings, OtherPyTorchServersGetTheirFlags) {
  const auto sglang =
      findings_of({"  File \"/opt/sglang/srt/managers/scheduler.py\", line 1, in run",
                   "  File \"/opt/vllm/model_executor/layers/linear.py\", line 2, in forward", kTorch});
  EXPECT_THAT(commands_of(sglang.at(0)), Contains(HasSubstr("--mem-fraction-static")));
  const auto tgi = findings_of(
      {"  File \"/opt/text_generation_server/models/flash_causal_lm.py\", line 1, in run", kTorch});
  EXPECT_THAT(commands_of(tgi.at(0)), Contains(HasSubstr("--max-batch-prefill-tokens")));
  // A script that uses the server's layers, or has the server's name in its path.
  for (const std::string line : {"  File \"/opt/vllm/model_executor/layers/linear.py\", line 2, in forward",
                                 "  File \"/opt/vllm-tests/train.py\", line 2, in <module>"}) {
    const Finding plain = findings_of({line, kTorch}).at(0);
    EXPECT_THAT(commands_of(plain), Contains("model.half()")) << line;
    EXPECT_THAT(plain.title, Not(HasSubstr("vLLM"))) << line;
  }
}

TEST(LogStackWordings, DoesNotSuggestHalfPrecisionTwice) {
  for (const std::string line : {"loading with torch_dtype=torch.bfloat16", "python3 serve.py --dtype half",
                                 "model weight dtype torch.float8_e4m3fn, manual cast: torch.bfloat16",
                                 "{\"torch_dtype\": \"float16\"}", "config: dtype: bf16", "dtype=fp16"})
    EXPECT_THAT(commands_of(findings_of({line, kTorch}).at(0)), Each(Not(HasSubstr("half()")))) << line;
  for (const std::string line :
       {"loading with torch_dtype=torch.float32", "kv_cache_dtype=float16",
        "Retrying with float16 is not possible", "half of the frames, dtype float32"})
    EXPECT_THAT(commands_of(findings_of({line, kTorch}).at(0)), Contains("model.half()")) << line;
}

TEST(LogStackWordings, VulkanErrorIsGgmlOnlyNearGgmlLines) {
  const std::string what = "  what():  vk::Device::allocateMemory: ErrorOutOfDeviceMemory";
  const auto alone = findings_of({"[Error] [carb.graphics] createBuffer failed", what});
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].id, "vulkan-out-of-memory");
  EXPECT_THAT(commands_of(alone[0]), Each(Not(HasSubstr("-ngl"))));
  const auto behind = findings_of({"ggml_vulkan: Found 1 Vulkan devices:", what});
  ASSERT_EQ(behind.size(), 1U);
  EXPECT_EQ(behind[0].id, "ggml-out-of-memory");
  for (const bool is_first : {false, true}) {
    std::vector<std::string> lines{"ggml_vulkan: Device memory allocation of size 1073741824 failed.", what};
    if (is_first) std::reverse(lines.begin(), lines.end());
    const auto both = findings_of(lines);
    ASSERT_EQ(both.size(), 1U);
    EXPECT_EQ(both[0].id, "ggml-out-of-memory");
    EXPECT_EQ(both[0].times, 1);
    EXPECT_EQ(figure(both[0], "requested_bytes"), 1073741824);
  }
}

// The line that names the memory may follow the line that names the purpose.
TEST(LogStackWordings, RefusedHostMemoryIsReportedAsHost) {
  const auto findings = findings_of(
      {"whisper_init_state: failed to allocate memory for the compute buffer",
       "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 3221225472"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].title, HasSubstr("in the host's memory"));
  EXPECT_THAT(commands_of(findings[0]), Not(Contains("-ng")));
}

// The context's failure is not part of a note about pinned memory.
TEST(LogStackWordings, PinnedMemoryNoteDoesNotHideFailure) {
  const auto findings = findings_of(
      {"ggml_cuda_host_malloc: failed to allocate 300.00 MiB of pinned memory: out of memory",
       "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers"});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "ggml-out-of-memory");
  EXPECT_EQ(findings[0].severity, Severity::severe);
}

TEST(LogStackWordings, RecognizesVulkanErrorCodes) {
  EXPECT_THAT(findings_of({"vkCreateBuffer failed: VK_ERROR_OUT_OF_HOST_MEMORY"}).at(0).title,
              HasSubstr("host memory"));
  const auto isaac = findings_of(
      {"[Error] [x] VkResult: ERROR_OUT_OF_DEVICE_MEMORY",
       "[Error] [gpu.foundation.plugin] Out of GPU memory allocating resource 'x' [size: 134217728]"});
  ASSERT_EQ(isaac.size(), 1U);
  EXPECT_EQ(isaac[0].times, 1);
  EXPECT_EQ(figure(isaac[0], "requested_bytes"), 134217728);
}

TEST(LogStackWordings, WhisperAndStableDiffusionGetTheirFlags) {
  const auto whisper = findings_of({"whisper_model_load: loading model",
                                    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 3094.36 MiB on "
                                    "device 0: cudaMalloc failed: out of memory",
                                    "whisper_model_load: failed to allocate memory for the model"});
  ASSERT_EQ(whisper.size(), 1U);
  EXPECT_EQ(whisper[0].times, 1);
  EXPECT_THAT(whisper[0].title, HasSubstr("whisper.cpp"));
  EXPECT_THAT(whisper[0].cause, HasSubstr("weights did not fit"));
  EXPECT_THAT(commands_of(whisper[0]), Contains("-ng"));
  EXPECT_THAT(commands_of(whisper[0]), Each(Not(HasSubstr("-ngl"))));
  const auto diffusion =
      findings_of({"[INFO ] stable-diffusion.cpp:184 - loading model from sd.safetensors",
                   "[ERROR] ggml_extend.hpp:71   - ggml_backend_cuda_buffer_type_alloc_buffer: allocating "
                   "1564.36 MiB on device 0: cudaMalloc failed: out of memory",
                   "[ERROR] ggml_extend.hpp:1123 - vae: failed to allocate the compute buffer"});
  ASSERT_EQ(diffusion.size(), 1U);
  EXPECT_EQ(diffusion[0].times, 1);
  for (const char* flag : {"--vae-tiling", "--vae-on-cpu", "--clip-on-cpu"})
    EXPECT_THAT(commands_of(diffusion[0]), Contains(flag));
  EXPECT_THAT(commands_of(diffusion[0]), Each(Not(HasSubstr("-ngl"))));
  const auto weights = findings_of(
      {"[ERROR] ggml_extend.hpp:71   - unet alloc params backend buffer failed, num_tensors = 686"});
  EXPECT_THAT(weights.at(0).cause, HasSubstr("weights did not fit"));
  // llama.cpp keeps its own flags.
  const auto llama =
      findings_of({"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 345.72 MiB on device 0: "
                   "cudaMalloc failed: out of memory"});
  EXPECT_THAT(commands_of(llama.at(0)), Contains(HasSubstr("-ngl")));
}

TEST(LogStackWordings, CuPyLimitIsTheCause) {
  const Finding limited =
      findings_of({"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 4,294,967,296 bytes "
                   "(allocated so far: 9,663,676,416 bytes, limit set to: 10,737,418,240 bytes)."})
          .at(0);
  EXPECT_EQ(limited.confidence, Confidence::certain);
  EXPECT_THAT(limited.cause, HasSubstr("9.00 GiB of 10.00 GiB"));
  EXPECT_EQ(figure(limited, "limit_bytes"), 10737418240);
  EXPECT_EQ(limited.cures.at(0).command, "cupy.get_default_memory_pool().set_limit(size=13958643712)");
  // Below the limit, the GPU itself was full.
  const Finding within =
      findings_of({"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,024 bytes (allocated so "
                   "far: 4,000 bytes, limit set to: 10,737,418,240 bytes)."})
          .at(0);
  EXPECT_THAT(within.cause, Not(HasSubstr("limit")));
  EXPECT_THAT(commands_of(within), Each(Not(HasSubstr("set_limit"))));
}

TEST(LogStackWordings, ReadsPaddle) {
  const Finding paddle =
      findings_of({"Out of memory error on GPU 0. Cannot allocate 1.500000GB memory on GPU 0, 7.2GB memory "
                   "has been allocated and available memory is only 512.125000MB."})
          .at(0);
  EXPECT_EQ(figure(paddle, "requested_bytes"), 1610612736);
  EXPECT_EQ(figure(paddle, "free_bytes"), 537001984);
  EXPECT_THAT(paddle.cause, HasSubstr("7.20 GiB of the GPU's memory were in use"));
}

TEST(LogStackWordings, RecognizesArrowMalloc) {
  for (const std::string call : {"malloc", "realloc"}) {
    const auto findings =
        findings_of({"pyarrow.lib.ArrowMemoryError: " + call + " of size 1073741824 failed"});
    ASSERT_EQ(findings.size(), 1U) << call;
    EXPECT_EQ(findings[0].title,
              "A program could not allocate host memory: it asked for 1.00 GiB (reported by Arrow)");
    EXPECT_THAT(commands_of(findings[0]), Contains(HasSubstr("to_batches"))) << call;
  }
  EXPECT_THAT(findings_of({"server: malloc of size 4096 failed"}).at(0).title,
              HasSubstr("(reported by malloc)"));
  EXPECT_TRUE(findings_of({"arrow: realloc of size 4096 failed over to mmap"}).empty());
}

TEST(LogStackWordings, ReadsFiguresOfSglangAndTgi) {
  const Finding sglang =
      only_of({"[2025-01-01 10:00:00 TP0] Scheduler hit an exception: RuntimeError: Not enough memory. "
               "Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.85"});
  EXPECT_THAT(sglang.cause, HasSubstr("(0.85)"));
  const Finding tgi =
      only_of({"RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease "
               "`--max-batch-prefill-tokens`"});
  EXPECT_EQ(tgi.cures.at(0).command, "--max-batch-prefill-tokens 2048");
  const Finding older =
      only_of({"RuntimeError: Not enough memory to handle 16000 total tokens with 4096 prefill tokens."});
  EXPECT_EQ(figure(older, "total_tokens"), 16000);
  EXPECT_EQ(figure(older, "prefill_tokens"), 4096);
}

TEST(LogStackWordings, ReadsFiguresOfXlaCompileFailure) {
  const Finding hbm =
      findings_of({"XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory "
                   "in memory space hbm. Used 17.21G of 15.48G hbm. Exceeded hbm capacity by 1.73G."})
          .at(0);
  EXPECT_EQ(hbm.id, "xla-out-of-memory");
  EXPECT_EQ(hbm.title,
            "XLA could not compile a step: it needs 17.21 GiB of hbm, but the device has 15.48 GiB");
  EXPECT_THAT(hbm.cause, HasSubstr("1.73 GiB are missing"));
  EXPECT_THAT(commands_of(hbm), Each(Not(HasSubstr("PREALLOCATE"))));
  const Finding vmem =
      findings_of({"RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem while allocating on stack"})
          .at(0);
  EXPECT_THAT(vmem.title, HasSubstr("more vmem than the device has"));
  EXPECT_TRUE(findings_of({"# Ran out of memory in memory space hbm"}).empty());
}

TEST(LogStackWordings, TritonPythonBackendFillsSharedMemory) {
  const auto findings = findings_of(
      {"triton_python_backend_utils.TritonModelException: Failed to increase the shared memory pool size for "
       "key 'triton_python_backend_shm_region_1' to 67108864 bytes. If you are running Triton inside docker, "
       "use '--shm-size' flag to control the shared memory region size. Each Python backend model instance "
       "requires at least 1 MB of shared memory. Error: No space left on device"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "shared-memory-full");
  EXPECT_EQ(figure(findings[0], "requested_bytes"), 67108864);
  EXPECT_THAT(commands_of(findings[0]), Contains(HasSubstr("--shm-size")));
  EXPECT_THAT(commands_of(findings[0]), Each(Not(HasSubstr("DataLoader"))));
  EXPECT_TRUE(
      findings_of({"self.assertIn(\"Failed to increase the shared memory pool size\", text)"}).empty());
}

TEST(LogStackWordings, ReportsThermalShutdown) {
  const auto findings = findings_of(
      {"[  300.1] thermal thermal_zone0: cpu-thermal: critical temperature reached, shutting down",
       "[  300.2] reboot: HARDWARE PROTECTION shutdown (Temperature too high)"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "thermal-shutdown");
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_THAT(findings[0].title, HasSubstr("(cpu-thermal)"));
  const auto older =
      findings_of({"kernel: thermal thermal_zone4: critical temperature reached (128 C), shutting down"});
  EXPECT_THAT(older.at(0).title, HasSubstr("at 128 °C"));
  // It does not raise the severity of a warning that only a memory failure raises.
  EXPECT_EQ(findings_of({"NvMapMemHandleAlloc: error 12",
                         "thermal thermal_zone0: cpu-thermal: critical temperature reached, shutting down"})
                .at(1)
                .severity,
            Severity::warning);
}

TEST(LogStackWordings, SwapWriteErrorIsAWarning) {
  const std::vector<std::string> lines{"zram: Error allocating memory for compressed page: 1234, size=2048",
                                       "Write-error on swap-device (254:0:1234)"};
  const auto findings = findings_of(lines);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "swap-write-failed");
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_THAT(findings[0].title, HasSubstr("zram"));
  // The device number alone does not say whether it is a disk or zram.
  const Finding disk = findings_of({lines[1]}).at(0);
  EXPECT_EQ(disk.confidence, Confidence::possible);
  EXPECT_THAT(disk.cause, HasSubstr("disk"));
  EXPECT_THAT(commands_of(disk).at(0), HasSubstr("swapon --show"));
  // Near a memory failure it is severe.
  EXPECT_EQ(findings_of({lines[0], kTorch}).at(0).severity, Severity::severe);
}

// The same shapes, with real failures.
TEST(LogStackWordings, ReportsErrorsInBracketsAndAfterKeys) {
  for (const std::string line :
       {"failed with errors: [CUDA out of memory, NCCL timeout]", "[worker-1, rank 0] CUDA out of memory",
        "config: {batch: 8} failed: CUDA out of memory", "error: \"CUDA out of memory\"",
        "{\"message\": \"CUDA out of memory\"}", "status=error message=\"CUDA out of memory\"",
        "The worker will be restarted: CUDA out of memory", "RuntimeError: CUDA out of memory unhandled",
        "[policy] CUDA out of memory",
        "10.0.0.1 \"POST /v1/generate HTTP/1.1\" 500: RuntimeError: CUDA out of memory"}) {
    const auto findings = findings_of({line});
    ASSERT_EQ(findings.size(), 1U) << line;
    EXPECT_EQ(findings[0].severity, Severity::severe) << line;
  }
}

}  // namespace
}  // namespace headroom::test
