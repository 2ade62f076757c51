// Loads a model with Headroom's settings.
#pragma once

#include <onnxruntime_c_api.h>

#include <memory>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"
#include "inference/plugin/cuda_device.h"

namespace headroom::onnxruntime {

// Without a `device`, the session runs on the CPU. Throws Failure.
std::shared_ptr<OrtSession> create_session(Runtime& runtime, const char* path, const hr_settings& settings,
                                           const plugin::CudaDevice* device);

// How many nodes of the graph the device's providers run, and which nodes stayed on the CPU; -1 before ONNX
// Runtime 1.24. Only for a session on a device.
hr_placement placement_of(const Runtime& runtime, const OrtSession& session);

// Describes the device's memory, for binding.
Owned<OrtMemoryInfo> cuda_memory(const Runtime& runtime, unsigned ordinal);

}  // namespace headroom::onnxruntime
