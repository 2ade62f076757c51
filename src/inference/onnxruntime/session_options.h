// Headroom's settings as ONNX Runtime's session options.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"
#include "inference/plugin/cuda_device.h"

namespace headroom::onnxruntime {

// The provider of a device. A plug-in has one: that of ONNX Runtime has CUDA's, a second one of the same code
// TensorRT's.
enum class DeviceProvider { cuda, tensorrt };
inline DeviceProvider device_provider = DeviceProvider::cuda;  // set once, before anything else

// threads → intra-op threads (operators run one after another); arena, memory_pattern, prepacking,
// graph_level and spinning → the options of these names. arena_same_as_requested takes the arena of the
// environment, which all such sessions of the process share, because a session's own arena always grows by
// powers of two. With a `device` it is that device's arena that is meant, and the CPU's stays as it is
// (cuda_provider.h). Throws Failure.
Owned<OrtSessionOptions> make_session_options(Runtime& runtime, const hr_settings& settings,
                                              const plugin::CudaDevice* device);

// The folder that is kept from run to run: what is prepared of models lies there. Made if it is not there.
// Throws Failure.
std::string engine_cache();

}  // namespace headroom::onnxruntime
