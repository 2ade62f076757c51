// Adds ONNX Runtime's CUDA and TensorRT providers to a session, and reads which nodes they run.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"
#include "inference/plugin/cuda_device.h"

namespace headroom::onnxruntime {

// ONNX Runtime 1.16 is the first version that accepts the caller's CUDA stream.
constexpr uint32_t kOldestApiForCuda = 16;

// Adds the CUDA provider on this device. These settings map to provider options:
//   arena_same_as_requested → arena_extend_strategy
//   conv_search             → cudnn_conv_algo_search
//   conv_small_workspace    → cudnn_conv_use_max_workspace
//   device_graph            → enable_cuda_graph
// Throws Failure: HR_ERROR_UNAVAILABLE if the library has no CUDA provider, or if the provider does not
// load.
void append_cuda(const Runtime& runtime, OrtSessionOptions& options, const hr_settings& settings,
                 const plugin::CudaDevice& device);

// Adds the TensorRT provider, then the CUDA provider for the nodes that TensorRT does not support. The
// engines that it builds are stored in `cache`, by model, GPU and version (checked by ONNX Runtime).
// Building an engine takes minutes and counts as part of the load. device_graph sets
// trt_cuda_graph_enable. Throws Failure like append_cuda().
void append_tensorrt(const Runtime& runtime, OrtSessionOptions& options, const hr_settings& settings,
                     const plugin::CudaDevice& device, const std::string& cache);

// How many nodes of the graph the providers run, and which nodes stayed on the CPU; -1 before ONNX Runtime
// 1.24. Only for a session whose options went through append_cuda() or append_tensorrt().
hr_placement placement_of(const Runtime& runtime, const OrtSession& session);

// Describes the device's memory, for binding.
Owned<OrtMemoryInfo> cuda_memory(const Runtime& runtime, unsigned ordinal);

}  // namespace headroom::onnxruntime
