// Messages of model runtimes that ran out of memory, and the cures computed from their figures: llama.cpp's
// cache, TensorRT's built engines, vLLM's share, RKNN, ncnn.
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// The cure with this command, or an empty cure.
Cure cure_of(const Finding& finding, std::string_view command) {
  for (const Cure& cure : finding.cures)
    if (cure.command == command) return cure;
  return {};
}

// The log of llama.cpp: 5120 MiB are free, and the weights take 4168.09 MiB.
std::vector<std::string> llama_cache(const std::string& context = "32768") {
  return {"llama_model_load_from_file_impl: using device CUDA0 (Orin) - 5120 MiB free",
          "print_info: n_layer          = 32",
          "load_tensors: offloaded 33/33 layers to GPU",
          "load_tensors:        CUDA0 model buffer size =  4168.09 MiB",
          "llama_context: n_ctx         = " + context,
          "llama_context: n_ubatch      = 512",
          "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0: cudaMalloc "
          "failed: out of memory",
          "alloc_tensor_range: failed to allocate CUDA0 buffer of size 4294967296",
          "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache"};
}

TEST(LogRuntimeCures, ShrinksCacheToFit) {
  const Finding finding = only_of(llama_cache());
  EXPECT_EQ(finding.title, "ggml could not allocate its key-value cache of 4.00 GiB on the GPU");
  EXPECT_THAT(finding.cause,
              HasSubstr("The key-value cache of 32768 tokens did not fit: the weights left 951.9 MiB"));
  // 32768 · 951.91/4096 is 7615: 29 · 256.
  EXPECT_EQ(finding.cures.at(0).command, "-c 7424");
  EXPECT_EQ(finding.cures.at(0).saves, Bytes{4294967296 - 4294967296 / 32768 * 7424});
  const Cure in_8_bits = cure_of(finding, "-fa on -ctk q8_0 -ctv q8_0");
  EXPECT_EQ(in_8_bits.saves, Bytes{4294967296 / 64 * 30});
  EXPECT_THAT(in_8_bits.what, HasSubstr("-c 14080"));
  // A layer has 126.3 MiB of weights and 128 MiB of cache: 20 layers need 5086 MiB.
  EXPECT_THAT(commands_of(finding), Contains("-ngl 20"));
  EXPECT_THAT(commands_of(finding), Each(Not(HasSubstr("-ub"))));
}

TEST(LogRuntimeCures, GivesGeneralCacheCureWithoutFigures) {
  const Finding alone = only_of({"llama_kv_cache_init: failed to allocate buffer for kv cache"});
  EXPECT_EQ(alone.cause, "The key-value cache did not fit in the free memory.");
  EXPECT_THAT(commands_of(alone), Contains(HasSubstr("-c N")));
  EXPECT_THAT(commands_of(alone), Each(Not(HasSubstr("-ub"))));
  // The weights alone exceed the free memory: no context fits.
  auto lines = llama_cache();
  lines[0] = "llama_model_load_from_file_impl: using device CUDA0 (Orin) - 4200 MiB free";
  const Finding full = only_of(lines);
  EXPECT_THAT(commands_of(full), Each(Not(HasSubstr("-c "))));
  EXPECT_THAT(commands_of(full), Contains("-ngl 16"));
  // With the figures of another load the cache would fit, so they are not used.
  lines[0] = "llama_model_load_from_file_impl: using device CUDA0 (Orin) - 40960 MiB free";
  EXPECT_THAT(commands_of(only_of(lines)), Contains("-c 16384"));
  EXPECT_THAT(commands_of(only_of(lines)), Contains("-ngl N, below the layers in its log"));
}

TEST(LogRuntimeCures, HostCacheIsNotComputedFromGpuFigures) {
  auto lines = llama_cache();
  lines[6] = "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 4294967296";
  lines[7] = "alloc_tensor_range: failed to allocate CPU buffer of size 4294967296";
  const Finding finding = only_of(lines);
  EXPECT_EQ(finding.cures.at(0).command, "-c 16384");
  EXPECT_EQ(finding.cures.at(0).saves, gibibytes(2));
  EXPECT_THAT(commands_of(finding), Each(Not(AnyOf(HasSubstr("-ngl"), HasSubstr("-ub")))));
}

// The same for other programs, and for buffers of ggml that are not a cache.
TEST(LogRuntimeCures, OtherProgramsAndBuffersHaveTheirOwnCures) {
  const Finding whisper = only_of({"whisper_kv_cache_init: failed to allocate memory for the kv cache"});
  EXPECT_EQ(whisper.cause, "The key-value cache did not fit in the free memory.");
  EXPECT_THAT(commands_of(whisper), Each(Not(HasSubstr("-ctk"))));
  auto lines = llama_cache();
  lines.pop_back();
  EXPECT_THAT(commands_of(only_of(lines)), Contains("-ub 256"));
}

const std::string kRequest =
    "[TRT] [W] Requested amount of GPU memory (8589934592 bytes) could not be allocated. There may not be "
    "enough free memory for allocation to succeed.";

void expect_no_workspace(const Finding& finding) {
  EXPECT_EQ(finding.id, "tensorrt-out-of-memory");
  EXPECT_EQ(finding.severity, Severity::severe);
  for (const Cure& cure : finding.cures) {
    EXPECT_THAT(cure.command, Not(HasSubstr("workspace")));
    EXPECT_FALSE(cure.saves) << cure.what;
  }
  EXPECT_THAT(commands_of(finding), Contains("headroom top"));
  EXPECT_THAT(commands_of(finding), Contains(HasSubstr("--fp16")));
}

TEST(LogRuntimeCures, BuiltEngineHasNoWorkspaceCure) {
  const std::string allocate =
      "[TRT] [E] [defaultAllocator.cpp::allocate::58] Error Code 1: Cuda Runtime (out of memory)";
  for (const std::string last :
       {"[TRT] [E] ICudaEngine::createExecutionContext: Error Code 1: Cuda Runtime (out of memory)",
        "ERROR: [TRT]: 2: [executionContext.cpp::ExecutionContext::436] Error Code 2: OutOfMemory (no "
        "further information)"}) {
    const Finding context = only_of({allocate, kRequest, last});
    expect_no_workspace(context);
    EXPECT_EQ(context.times, 1);
    EXPECT_EQ(context.title,
              "TensorRT ran out of memory for a context of a built engine: it asked for 8.00 GiB");
    EXPECT_THAT(commands_of(context), Contains(HasSubstr("--optShapes=INPUT:SHAPE --maxShapes=INPUT:SHAPE")));
    EXPECT_THAT(commands_of(context), Contains(HasSubstr("kUSER_MANAGED")));
  }
  const Finding sized =
      only_of({"[E] Error[2]: [executionContext.cpp::initializeExecutionContext::410] Error Code 2: "
               "OutOfMemory (Requested size was 6442450944 bytes.)",
               "[E] Error[2]: [graphContext.cpp] OutOfMemory (no further information) [TRT]"});
  expect_no_workspace(sized);
  EXPECT_EQ(sized.times, 1);
}

TEST(LogRuntimeCures, LoadedEngineGetsWeightCures) {
  const Finding load =
      only_of({"[E] [TRT] 1: [engine.cpp::deserializeEngine] Error Code 1: Cuda Runtime (out of memory)",
               kRequest, "[E] Engine deserialization failed"});
  expect_no_workspace(load);
  EXPECT_EQ(load.title, "TensorRT ran out of memory while it loaded a built engine: it asked for 8.00 GiB");
  EXPECT_THAT(commands_of(load), Contains(HasSubstr("--allowWeightStreaming --weightStreamingBudget=50%")));
  // TensorRT 7 reports the purpose only on a later line. That line alone is not a memory failure.
  const std::string behind = "[TensorRT] ERROR: INVALID_CONFIG: Deserialize the cuda engine failed.";
  expect_no_workspace(
      only_of({"[TensorRT] ERROR: ../rtSafe/safeRuntime.cpp (25) - Cuda Error in allocate: 2 (out of memory)",
               "[TensorRT] ERROR: INVALID_STATE: std::exception", behind}));
  EXPECT_TRUE(findings_of({behind, "[E] Engine deserialization failed"}).empty());
  // The builder's refusals keep the builder's cures.
  EXPECT_THAT(commands_of(only_of({kRequest})), Contains(HasSubstr("workspace:4096")));
}

// The GPU was full, so a larger workspace does not help.
TEST(LogRuntimeCures, NodeWithoutTacticNamesGpuRefusal) {
  const auto findings = findings_of(
      {"[E] [TRT] [virtualMemoryBuffer.cpp::resizePhysical::154] Error Code 1: Cuda Driver (out of memory)",
       kRequest,
       "[W] [TRT] Skipping tactic 0x0000000000000003 due to exception: [tunable_graph.cpp:create:117] "
       "autotuning: User allocator error allocating 8589934592-byte buffer",
       "[E] [TRT] IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any "
       "implementation for node {ForeignNode[/backbone/Conv...]}.)"});
  ASSERT_EQ(findings.size(), 1U);
  const Finding node = finding_of_id(findings, "tensorrt-no-implementation");
  EXPECT_EQ(node.cause, "The GPU had no memory for the 8.00 GiB that the last tactic requested.");
  EXPECT_EQ(node.cures.at(0).command, "headroom top");
  EXPECT_THAT(commands_of(node), Each(Not(HasSubstr("workspace"))));
}

const std::string kNoBlocks =
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
    "initializing the engine.";

TEST(LogRuntimeCures, ReadsFiguresOfVllm) {
  const Finding v1 = only_of(
      {"INFO 09-01 11:12:00 [utils.py:233] non-default args: {'model': 'x', 'gpu_memory_utilization': 0.5}",
       "INFO 09-01 11:12:13 [gpu_worker.py:298] Available KV cache memory: -0.62 GiB", kNoBlocks});
  EXPECT_EQ(text_figure(v1, "share"), "0.5");
  EXPECT_EQ(figure(v1, "lacking_bytes"), 665719931);
  EXPECT_THAT(v1.cause, HasSubstr("Weights and warm-up take 634.9 MiB more than the share"));
  EXPECT_EQ(v1.cures.at(0).command, "--gpu-memory-utilization 0.75");
  const Finding v0 = only_of(
      {"INFO 03-04 worker.py:267] the current vLLM instance can use total_gpu_memory (7.44GiB) x "
       "gpu_memory_utilization (0.90) = 6.70GiB",
       "INFO 03-04 worker.py:267] model weights take 5.79GiB; non_torch_memory takes 0.11GiB; PyTorch "
       "activation peak memory takes 1.23GiB; the rest of the memory reserved for KV Cache is -0.43GiB.",
       kNoBlocks});
  EXPECT_EQ(text_figure(v0, "share"), "0.90");
  EXPECT_EQ(figure(v0, "total_bytes"), 7988639171);
  EXPECT_EQ(figure(v0, "lacking_bytes"), 461708984);
  // 0.90 + 0.43/7.44, rounded up: 0.96; plus half of the rest: 0.98.
  EXPECT_THAT(v0.cures.at(0).what, HasSubstr("0.96 is enough for weights and warm-up, without a cache"));
  EXPECT_EQ(v0.cures.at(0).command, "--gpu-memory-utilization 0.98");
  const Finding none =
      only_of({"the current vLLM instance can use total_gpu_memory (4.00GiB) x gpu_memory_utilization (0.90) "
               "= 3.60GiB",
               "the rest of the memory reserved for KV Cache is -1.43GiB.", kNoBlocks});
  EXPECT_THAT(commands_of(none), Each(Not(HasSubstr("utilization"))));
  // An earlier start lacked memory; in this start only the cache is too small.
  for (const Finding& finding : findings_of(
           {"[gpu_worker.py:298] non-default args: {'gpu_memory_utilization': 0.6}",
            "[gpu_worker.py:298] Available KV cache memory: -5.00 GiB",
            "non-default args: {'gpu_memory_utilization': 0.8}",
            "[gpu_worker.py:298] Available KV cache memory: 4.00 GiB",
            "ValueError: To serve at least one request with the models's max seq len (32768), (8.00 GiB KV "
            "cache is needed, which is larger than the available KV cache memory (4.00 GiB)."}))
    for (const Cure& cure : finding.cures) EXPECT_THAT(cure.what, Not(HasSubstr("is enough for weights")));
  // A start with enough memory prints the same words and is not a failure.
  EXPECT_TRUE(findings_of({"[gpu_worker.py:298] Available KV cache memory: 3.62 GiB",
                           "[gpu_worker.py:298] Available KV cache memory: -0.62 GiB"})
                  .empty());
  EXPECT_EQ(figure(only_of({"[gpu_worker.py:298] Available KV cache memory: 3.62 GiB", kNoBlocks}),
                   "lacking_bytes"),
            -1);
}

TEST(LogRuntimeCures, ReadsSizeOfRknn) {
  const Finding finding = only_of(
      {"E RKNN: [09:40:45.140] failed to allocate handle, ret: -1, errno: 12, errstr: Cannot allocate memory",
       "E RKNN: [09:40:45.140] failed to malloc npu memory, size: 3085697024, flags: 0x2",
       "E RKNN: [09:40:45.148] load model file error!"});
  EXPECT_EQ(finding.id, "rknn-out-of-memory");
  EXPECT_EQ(finding.severity, Severity::severe);
  EXPECT_EQ(finding.times, 1);
  EXPECT_EQ(finding.title, "RKNN could not allocate NPU memory: it asked for 2.87 GiB");
  EXPECT_EQ(figure(finding, "requested_bytes"), 3085697024);
  EXPECT_THAT(commands_of(finding), Contains(HasSubstr("base_domain_id = 1")));
}

TEST(LogRuntimeCures, ReadsVulkanCodesOfNcnn) {
  const Finding device = only_of({"vkAllocateMemory failed -2"});
  EXPECT_EQ(device.id, "vulkan-out-of-memory");
  EXPECT_EQ(device.title, "Vulkan could not allocate GPU memory");
  EXPECT_THAT(commands_of(device), Contains("-t 128"));
  const Finding host = only_of({"vkAllocateMemory failed -1"});
  EXPECT_EQ(host.title, "Vulkan could not allocate host memory");
  EXPECT_THAT(commands_of(host), Each(Not(HasSubstr("-t 128"))));
}

}  // namespace
}  // namespace headroom::test
