// Messages with the wording of specific libraries and boards, and the cures that depend on it.
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

TEST(LogWordings, TwoErrorsOfTensorRtAreOneEvent) {
  const auto findings = findings_of(
      {"[E] Error[1]: [defaultAllocator.cpp::allocateAsync::48] Error Code 1: Cuda Runtime (out of memory)",
       "[E] Error[2]: [executionContext.cpp::ExecutionContext::582] Error Code 2: OutOfMemory (Requested "
       "size was 2147483648 bytes.)"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_EQ(figure(findings[0], "requested_bytes"), 2147483648);
}

// A larger workspace does not help if the GPU has less free memory.
TEST(LogWordings, TensorRtNodeNamesLackOfItsTactic) {
  const auto findings =
      findings_of({"[W] [TRT] Tactic Device request: 4457MB Available: 2895MB. Device memory is insufficient "
                   "to use tactic.",
                   "[W] [TRT] UNSUPPORTED_STATE: Skipping tactic 0 due to insufficient memory on requested "
                   "size of 4457 detected for tactic 0x0000000000000000.",
                   "[E] Error[10]: [optimizer.cpp::computeCosts::3728] Error Code 10: Internal Error (Could "
                   "not find any implementation for node {ForeignNode[/model.22/dfl/Reshape...]}.)"});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "tensorrt-no-implementation");
  EXPECT_EQ(findings[0].cures.at(0).saves, mebibytes(4457 - 2895));
  EXPECT_THAT(commands_of(findings[0]), testing::Each(testing::Not(HasSubstr("workspace"))));
}

TEST(LogWordings, ExplainsFailedBuildOfTensorRt7) {
  const auto node =
      findings_of({"[W] [TRT] GPU memory allocation error during getBestTactic: 9_full_with_bias",
                   "[E] [TRT] Internal error: could not find any implementation for node 9_full_with_bias, "
                   "try increasing the workspace size with IBuilder::setMaxWorkspaceSize()"});
  ASSERT_EQ(node.size(), 2U);
  EXPECT_EQ(node[0].title, "TensorRT found no implementation for the node 9_full_with_bias");
  EXPECT_THAT(node[0].cause, HasSubstr("The GPU had no memory"));
  EXPECT_THAT(commands_of(node[0]), testing::Each(testing::Not(HasSubstr("workspace"))));
  EXPECT_EQ(node[1].severity, Severity::benign);
  const auto tactic =
      findings_of({"[TensorRT] ERROR: Requested amount of memory (150994944 bytes) could not be allocated. "
                   "There may not be enough free memory for allocation to succeed.",
                   "[TensorRT] ERROR: Out of memory error during getBestTactic: [FULLY_CONNECTED #1]"});
  ASSERT_EQ(tactic.size(), 1U);
  EXPECT_EQ(tactic[0].times, 1);
  const auto plugin =
      findings_of({"[TensorRT] ERROR: Internal error: plugin node (Unnamed Layer* 2) "
                   "[PluginV2DynamicExt]requires 2415919104 bytes of scratch space, but only 1048576000 is "
                   "available. Try increasing the workspace size with IBuilderConfig::setMaxWorkspaceSize()",
                   "[TensorRT] ERROR: ../builder/cudnnBuilder2.cpp (1176) - OutOfMemory Error in "
                   "checkPluginScratchSize: 0"});
  ASSERT_EQ(plugin.size(), 1U);
  EXPECT_EQ(plugin[0].times, 1);
  EXPECT_EQ(plugin[0].title,
            "TensorRT's plugin node (Unnamed Layer* 2) [PluginV2DynamicExt] needs 2.25 GiB of workspace, "
            "more than the build allows (1000.0 MiB)");
  EXPECT_EQ(plugin[0].cures.at(0).command, "trtexec --onnx=model.onnx --memPoolSize=workspace:2304");
}

TEST(LogWordings, TensorFlowHostFailureHasNoGpuCures) {
  const auto host =
      findings_of({"W tensorflow/core/framework/op_kernel.cc:1763] OP_REQUIRES failed at cast_op.cc:109 : "
                   "Resource exhausted: OOM when allocating tensor with shape[1,512,647,3] and type float on "
                   "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
                   "ResourceExhaustedError: OOM when allocating tensor with shape[1,512,647,3] and type "
                   "float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu [Op:Cast]"});
  ASSERT_EQ(host.size(), 1U);
  EXPECT_EQ(host[0].times, 1);
  EXPECT_THAT(host[0].title, HasSubstr("host memory"));
  EXPECT_THAT(host[0].cause, testing::Not(HasSubstr("GPU")));
  EXPECT_THAT(commands_of(host[0]), testing::Each(testing::Not(HasSubstr("GPU"))));
  EXPECT_THAT(commands_of(host[0]), testing::Contains("headroom trace -- COMMAND"));
  // A line without a device joins the line with one.
  const std::string logged =
      "OP_REQUIRES failed at cast_op.cc:109 : RESOURCE_EXHAUSTED: failed to allocate memory";
  for (const char* device : {"CPU", "GPU"}) {
    const auto both = findings_of(
        {logged, fmt::format("ResourceExhaustedError: {{{{function_node "
                             "__wrapped__AddV2_device_/device:{}:0}}}} failed to allocate memory [Op:AddV2]",
                             device)});
    ASSERT_EQ(both.size(), 1U);
    EXPECT_EQ(both[0].times, 1);
    EXPECT_THAT(both[0].title, HasSubstr(device == std::string("CPU") ? "host memory" : "GPU memory"));
  }
}

// The pool of the program counts with its idle blocks, not only its allocated part.
TEST(LogWordings, IdlePyTorchMemoryIsNotTheSystems) {
  const auto findings = findings_of(
      {"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.43 GiB total capacity; 2.02 "
       "GiB already allocated; 12.50 MiB free; 5.21 GiB reserved in total by PyTorch)"});
  EXPECT_THAT(findings.at(0).cause, HasSubstr("Fragmentation: PyTorch held 3.19 GiB"));
  EXPECT_THAT(findings[0].cures.at(0).command, HasSubstr("max_split_size_mb"));
}

TEST(LogWordings, WrongSizeHasNoMemoryCures) {
  const std::string torch =
      " (GPU 0; 7.43 GiB total capacity; 2.02 GiB already allocated; 12.50 MiB free; 5.21 GiB reserved in "
      "total by PyTorch)";
  for (const std::string& line :
       {"RuntimeError: CUDA out of memory. Tried to allocate 20000.00 GiB" + torch,
        "RuntimeError: CUDA out of memory. Tried to allocate 17179869180.96 GiB" + torch,
        std::string("RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory."),
        std::string("memory allocation of 9223372036854775807 bytes failed"),
        std::string("[E:onnxruntime:] bfc_arena.cc:376 BFCArena::AllocateRawInternal Failed to allocate "
                    "memory for requested buffer of size 18446744065119617024"),
        std::string("ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 18446744073683240448"),
        std::string("ResourceExhaustedError: OOM when allocating tensor with shape[1000,99999999999,9999] "
                    "and type float on /device:GPU:0 by allocator GPU_0_bfc")}) {
    const auto findings = findings_of({line});
    ASSERT_EQ(findings.size(), 1U) << line;
    EXPECT_THAT(findings[0].cause, HasSubstr("the program computed a wrong size")) << line;
    for (const Cure& cure : findings[0].cures) {
      EXPECT_FALSE(cure.saves) << line;
      EXPECT_THAT(cure.command, testing::Not(HasSubstr("batch_size"))) << line;
    }
  }
  const auto rust = findings_of({"memory allocation of 18446744073610592755 bytes failed"});
  EXPECT_THAT(rust.at(0).title, HasSubstr("18446744073610592755 bytes"));
  EXPECT_THAT(rust[0].cause, HasSubstr("As a signed number, the size is negative: -98958861"));
  EXPECT_EQ(doctor::leading_overflow("16.0 EiB for"), "16.0 EiB");
  EXPECT_EQ(doctor::leading_overflow("4 GiB"), std::nullopt);
  EXPECT_EQ(doctor::leading_size("3.00 EiB"), Bytes{3LL << 60});
  EXPECT_EQ(doctor::leading_size("5 E"), Bytes{5});
}

TEST(LogWordings, HugeRequestSuggestsBatchSizeOne) {
  const auto findings =
      findings_of({"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1200.00 GiB. GPU 0 has a "
                   "total capacity of 7.44 GiB of which 4.00 GiB is free. Of the allocated memory 2.00 GiB "
                   "is allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated."});
  EXPECT_THAT(findings.at(0).cures.at(0).what, HasSubstr("267 times"));
  EXPECT_EQ(findings[0].cures[0].command, "batch_size = 1");
}

TEST(LogWordings, UsesPyTorchSettingsOfGpuVendor) {
  const auto commands = [](const std::string& line) { return commands_of(findings_of({line}).at(0)); };
  const std::string figures =
      " out of memory. Tried to allocate 124.00 MiB. GPU 0 has a total capacity of 19.94 GiB of which 54.47 "
      "MiB is free. Of the allocated memory 15.87 GiB is allocated by PyTorch, and 2.16 GiB is reserved by "
      "PyTorch but unallocated.";
  const auto amd = "torch.OutOfMemoryError: HIP" + figures;
  EXPECT_EQ(commands(amd).at(0), "PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:62");
  EXPECT_EQ(commands(amd + " If reserved but unallocated memory is large try setting "
                           "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.")
                .at(0),
            "PYTORCH_ALLOC_CONF=max_split_size_mb:62");
  const auto intel = commands("torch.OutOfMemoryError: XPU" + figures);
  EXPECT_EQ(intel.at(0), "torch.xpu.empty_cache()");
  EXPECT_THAT(intel, testing::Each(testing::Not(HasSubstr("ALLOC_CONF"))));
  EXPECT_EQ(commands("torch.OutOfMemoryError: CUDA" + figures).at(0),
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}

TEST(LogWordings, ExpandableSegmentsCheckSuggestsDisablingThem) {
  const auto findings =
      findings_of({"[ERROR] inference failed: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
                   "\"CUDACachingAllocator.cpp\":838",
                   "[ERROR] inference failed: !block->expandable_segment_ INTERNAL ASSERT FAILED at "
                   "\"CUDACachingAllocator.cpp\":2679"});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].cause, HasSubstr("NVML"));
  EXPECT_THAT(findings[1].cause, testing::Not(HasSubstr("NVML")));
  EXPECT_EQ(findings[1].cures.at(0).command, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False");
}

TEST(LogWordings, FullSharedMemoryOfDataLoaderIsOneEvent) {
  const auto findings = findings_of(
      {"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared "
       "memory (shm).",
       "Traceback (most recent call last):", "  File \"reductions.py\", line 321, in reduce_storage",
       "RuntimeError: unable to write to file </torch_1394_2747491098>",
       "RuntimeError: DataLoader worker (pid 1394) is killed by signal: Bus error. It is possible that "
       "dataloader's workers are out of shared memory. Please try to raise your shared memory limit."});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_EQ(findings[0].evidence.size(), 3U);
}

// llama.cpp needs less memory without pipeline parallelism, and logs when it tries that.
TEST(LogWordings, RecognizesSecondAttemptOfLlamaCpp) {
  const std::vector<std::string> refusal{
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 12710.31 MiB on device 0: cudaMalloc failed: "
      "out of memory",
      "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 13327728640",
      "graph_reserve: failed to allocate compute buffers"};
  std::vector<std::string> lines = refusal;
  lines.emplace_back(
      "llama_context: compute buffer allocation failed, retrying without pipeline parallelism");
  const auto went_on = findings_of(lines);
  ASSERT_EQ(went_on.size(), 1U);
  EXPECT_EQ(went_on[0].times, 1);
  EXPECT_EQ(went_on[0].severity, Severity::warning);
  lines.insert(lines.end(), refusal.begin(), refusal.end());
  lines.emplace_back(
      "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers");
  const auto failed = findings_of(lines);
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].times, 2);
  EXPECT_EQ(failed[0].severity, Severity::severe);
}

TEST(LogWordings, ThrottlingIsNotLackOfMemory) {
  const auto findings =
      findings_of({"[   80.1] NvMapMemAllocInternalTagged: 1075072515 error 12",
                   "[   80.2] soctherm: OC ALARM 0x00000001", "[   81.2] soctherm: OC ALARM 0x00000001"});
  ASSERT_EQ(findings.size(), 2U);
  for (const Finding& finding : findings) EXPECT_EQ(finding.severity, Severity::warning) << finding.id;
  EXPECT_EQ(findings[1].id, "throttled");
  EXPECT_EQ(findings[1].times, 2);
}

TEST(LogWordings, PropagatedCameraErrorIsOneFailure) {
  const auto findings =
      findings_of({"SCF: Error InsufficientMemory:  (propagating from src/components/GraphHelper.cpp, "
                   "function setBuffers(), line 75)",
                   "(Argus) Error InsufficientMemory:  (propagating from src/api/CaptureSessionImpl.cpp, "
                   "function createRequest(), line 100)"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 1);
}

TEST(LogWordings, ReadsHexadecimalSizes) {
  const auto finding = findings_of({"nvgpu: 17000000.gpu nvgpu_dma_print_err:101 [INFO] DMA alloc FAILED: "
                                    "[sysmem] size=0x4000000 aligned=0x4000000 flags:PHYSICALLY_ADDRESSED"})
                           .at(0);
  EXPECT_EQ(figure(finding, "requested_bytes"), 0x4000000);
  EXPECT_THAT(finding.title, HasSubstr("could not allocate 64.0 MiB of contiguous memory"));
  EXPECT_THAT(commands_of(finding), testing::Contains("cma=128M"));
  EXPECT_EQ(doctor::leading_size("0x1000"), Bytes{4096});
  EXPECT_EQ(doctor::leading_size("0XFF bytes"), Bytes{255});
  EXPECT_EQ(doctor::leading_size(" 0x10,"), Bytes{16});
  EXPECT_EQ(doctor::leading_size("0 bytes"), Bytes{0});
  EXPECT_EQ(doctor::leading_size("0x"), std::nullopt);
  EXPECT_EQ(doctor::leading_size("0xyz"), std::nullopt);
  EXPECT_EQ(doctor::leading_size("0xfffffffffffff000"), std::nullopt);
  EXPECT_EQ(doctor::leading_overflow("0xfffffffffffff000"), "18446744073709547520");
  EXPECT_EQ(doctor::leading_size("0x123456789abcdef01"), std::nullopt);
  EXPECT_EQ(doctor::integer_after("order:0x3", "order:"), 3);
  EXPECT_EQ(doctor::integer_after("order:3", "order:"), 3);
}

// If almost nothing is free, a share of it does not help, and vLLM rejects 0.00.
TEST(LogWordings, DoesNotSuggestTinyVllmShare) {
  const auto of = [](const char* device) {
    return findings_of({fmt::format("ValueError: Free memory on device {} on startup is less than desired "
                                    "GPU memory utilization (0.9, 6.7 GiB). Decrease GPU memory utilization "
                                    "or reduce GPU memory used by other processes.",
                                    device)})
        .at(0);
  };
  for (const char* device :
       {"(0.05/7.44 GiB)", "(0.0/7.44 GiB)", "(1.41/7.44 GiB)", "cuda:0 (0.4/79.1 GiB)"}) {
    const Finding finding = of(device);
    EXPECT_EQ(finding.cures.at(0).command, "headroom top") << device;
    EXPECT_THAT(commands_of(finding), testing::Contains("nvidia-smi")) << device;
    EXPECT_THAT(commands_of(finding), testing::Each(testing::Not(HasSubstr("utilization")))) << device;
  }
  EXPECT_EQ(of("(0.05/7.44 GiB)").cures[0].saves, Bytes{7'140'383'130});
  EXPECT_EQ(of("(3.21/7.44 GiB)").cures.at(0).command, "--gpu-memory-utilization 0.43");
  EXPECT_EQ(of("cuda:0 (3.21/7.44 GiB)").cures.at(0).command, "--gpu-memory-utilization 0.43");
}

TEST(LogWordings, CommandsAreComplete) {
  for (const char* line : {"[E] Error Code 2: OutOfMemory (no further information)",
                           "bfc_arena.cc:376 BFCArena::AllocateRawInternal Failed to allocate memory for "
                           "requested buffer of size 7",
                           "Load model from u2net.onnx failed:bad allocation"})
    for (const std::string& command : commands_of(findings_of({line}).at(0)))
      EXPECT_EQ(command.find("headroom bench") == command.npos, command.find(" --source ") == command.npos)
          << command;
  EXPECT_THAT(
      commands_of(
          findings_of({"OpenCV Error: Insufficient memory (Failed to allocate 6220804 bytes)"}).at(0)),
      testing::Contains("cap.set(cv2.CAP_PROP_BUFFERSIZE, 2)"));
}

}  // namespace
}  // namespace headroom::test
