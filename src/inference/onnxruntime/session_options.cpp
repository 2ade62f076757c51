#include "inference/onnxruntime/session_options.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "inference/onnxruntime/cuda_provider.h"
#include "inference/onnxruntime/failure.h"
#include "types/runtime_settings.h"

namespace headroom::onnxruntime {
namespace {

GraphOptimizationLevel graph_level_of(int32_t level) {
  switch (level) {
    case 0:
      return ORT_DISABLE_ALL;
    case 1:
      return ORT_ENABLE_BASIC;
    case 2:
      return ORT_ENABLE_EXTENDED;
    case 99:
      return ORT_ENABLE_ALL;
    default:
      throw Failure{HR_ERROR_FAILED, "invalid graph level " + std::to_string(level) + "; use 0, 1, 2 or 99"};
  }
}
}  // namespace

std::string engine_cache() {
  const char* named = std::getenv("HEADROOM_ENGINE_CACHE");
  std::string folder = named != nullptr && *named != '\0' ? named : "engine_cache";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Failure{HR_ERROR_FAILED,
                  "cannot create " + folder + ", the folder for prepared models: " + error.message()};
  return folder;
}

Owned<OrtSessionOptions> make_session_options(Runtime& runtime, const hr_settings& settings,
                                              const plugin::CudaDevice* device) {
  if (settings.threads < 0)
    throw Failure{HR_ERROR_FAILED,
                  std::to_string(settings.threads) + " threads is invalid; use 0 for the runtime's choice"};
  if (settings.precision > static_cast<int32_t>(Precision::fp32))
    throw Failure{HR_ERROR_FAILED,
                  "ONNX Runtime computes in the types of the model's file; export the model in another type, "
                  "or omit --precision"};
  // DisableCpuMemArena() affects only the CPU's arena.
  if (device != nullptr && settings.arena == 0)
    throw Failure{HR_ERROR_FAILED,
                  "ONNX Runtime cannot disable the arena of a GPU; omit arena=off, or use "
                  "extend=same_as_requested for exact growth"};
  const OrtApi& api = runtime.api();
  OrtSessionOptions* made = nullptr;
  runtime.check(api.CreateSessionOptions(&made));
  Owned<OrtSessionOptions> options(made, api.ReleaseSessionOptions);
  runtime.check(api.SetSessionExecutionMode(made, ORT_SEQUENTIAL));
  runtime.check(api.SetInterOpNumThreads(made, 1));
  if (settings.threads > 0) runtime.check(api.SetIntraOpNumThreads(made, settings.threads));
  runtime.check(settings.arena != 0 ? api.EnableCpuMemArena(made) : api.DisableCpuMemArena(made));
  runtime.check(settings.memory_pattern != 0 ? api.EnableMemPattern(made) : api.DisableMemPattern(made));
  runtime.check(api.SetSessionGraphOptimizationLevel(made, graph_level_of(settings.graph_level)));
  if (settings.prepacking == 0)
    runtime.check(api.AddSessionConfigEntry(made, "session.disable_prepacking", "1"));
  if (settings.spinning == 0)
    runtime.check(api.AddSessionConfigEntry(made, "session.intra_op.allow_spinning", "0"));
  if (device != nullptr) {
    if (device_provider == DeviceProvider::tensorrt)
      append_tensorrt(runtime, *made, settings, *device, engine_cache());
    else
      append_cuda(runtime, *made, settings, *device);
  } else if (device_provider == DeviceProvider::tensorrt) {
    throw Failure{HR_ERROR_UNAVAILABLE,
                  "TensorRT runs on GPUs only; use --device cuda:N, or --backend onnxruntime"};
  } else if (settings.shared_arena_bytes > 0) {
    runtime.make_shared_arena(settings.shared_arena_bytes);
    runtime.check(api.AddSessionConfigEntry(made, kUseEnvAllocators, "1"));
    // Keep weights out of the arena: they would leave holes in it when a session ends.
    runtime.check(api.AddSessionConfigEntry(made, "session.use_device_allocator_for_initializers", "1"));
  } else if (settings.arena != 0 && settings.arena_same_as_requested != 0) {
    runtime.make_exact_arena();
    runtime.check(api.AddSessionConfigEntry(made, kUseEnvAllocators, "1"));
  }
  return options;
}

}  // namespace headroom::onnxruntime
