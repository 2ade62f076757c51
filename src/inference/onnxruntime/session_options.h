// Converts Headroom's settings to ONNX Runtime's session options.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"
#include "inference/plugin/cuda_device.h"

namespace headroom::onnxruntime {

// The provider for device sessions: CUDA in the plug-in onnxruntime, TensorRT in the plug-in
// onnxruntime_tensorrt, which is built from the same code.
enum class DeviceProvider { cuda, tensorrt };
inline DeviceProvider device_provider = DeviceProvider::cuda;  // set once, before any other call

// Maps the settings to session options:
//   threads → intra-op threads (operators run one after another)
//   arena, memory_pattern, prepacking, graph_level, spinning → the options of these names
//   arena_same_as_requested → the environment's arena
//
// With arena_same_as_requested, all sessions of the process share the environment's arena. A session's own
// arena always grows by powers of two.
//
// With a `device`, the arena settings apply to the device's arena and the CPU's arena keeps its default
// (cuda_provider.h). Throws Failure.
Owned<OrtSessionOptions> make_session_options(Runtime& runtime, const hr_settings& settings,
                                              const plugin::CudaDevice* device);

// Returns the folder for prepared models and engines, which persists across runs; creates it if it is
// missing. Throws Failure.
std::string engine_cache();

}  // namespace headroom::onnxruntime
