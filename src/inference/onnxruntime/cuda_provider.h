// ONNX Runtime's CUDA provider: asked for in a session's options, and asked afterwards what it took.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"
#include "inference/plugin/cuda_device.h"

namespace headroom::onnxruntime {

// 1.16 brought the way to hand over a stream.
constexpr uint32_t kOldestApiForCuda = 16;

// Adds the provider on this device. arena_same_as_requested, conv_search, conv_small_workspace and
// device_graph of the settings are the provider's arena_extend_strategy, cudnn_conv_algo_search,
// cudnn_conv_use_max_workspace and enable_cuda_graph. Throws Failure: HR_ERROR_UNAVAILABLE where the library
// has no such provider, or it does not load.
void append_cuda(const Runtime& runtime, OrtSessionOptions& options, const hr_settings& settings,
                 const plugin::CudaDevice& device);

// Adds the TensorRT provider before the CUDA provider, which takes what that leaves. Engines that it builds
// are kept in `cache`, by model, GPU and version (ONNX Runtime's own check); building one takes minutes, and
// is a part of the load. device_graph is its trt_cuda_graph_enable. Throws Failure as append_cuda().
void append_tensorrt(const Runtime& runtime, OrtSessionOptions& options, const hr_settings& settings,
                     const plugin::CudaDevice& device, const std::string& cache);

// How many nodes of the graph went to the providers, and which stayed on the CPU; -1 before 1.24. For a
// session whose options append_cuda() was given.
hr_placement placement_of(const Runtime& runtime, const OrtSession& session);

// The memory of the device, for binding.
Owned<OrtMemoryInfo> cuda_memory(const Runtime& runtime, unsigned ordinal);

}  // namespace headroom::onnxruntime
