// Runs a model with ONNX Runtime's CUDA provider and with input and outputs on the device, without Headroom:
// pinned host memory, one stream, one synchronization at the end. This is ONNX Runtime's fastest method, and
// the one that Headroom uses.
#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <vector>

#include "bare_cuda.h"
#include "bare_runtime.h"

namespace bare_cuda {

using bare::api, bare::check, bare::element_size;

struct Provider {
  int ordinal = 0;
  bool capture = false;                    // run as a CUDA graph
  std::string conv_search = "exhaustive";  // the runtime's default
};

inline void use(OrtSessionOptions* options, const Provider& wanted, const Device& device) {
  const OrtApi* const cuda_api = OrtGetApiBase()->GetApi(16);  // the first API version that accepts a stream
  if (cuda_api == nullptr) bare::fail("this ONNX Runtime is older than 1.16");
  OrtCUDAProviderOptionsV2* provider = nullptr;
  check(cuda_api->CreateCUDAProviderOptions(&provider));
  const std::string ordinal = std::to_string(wanted.ordinal);
  std::string search = wanted.conv_search;
  for (char& c : search) c = static_cast<char>(std::toupper(c));
  const char* keys[] = {"device_id", "enable_cuda_graph", "cudnn_conv_algo_search"};
  const char* values[] = {ordinal.c_str(), wanted.capture ? "1" : "0", search.c_str()};
  check(cuda_api->UpdateCUDAProviderOptions(provider, keys, values, 3));
  check(cuda_api->UpdateCUDAProviderOptionsWithValue(provider, "user_compute_stream", device.stream));
  check(cuda_api->SessionOptionsAppendExecutionProvider_CUDA_V2(options, provider));
  cuda_api->ReleaseCUDAProviderOptions(provider);
}

// The model with its input and outputs on the device.
class Run {
 public:
  Run(OrtSession* session, int ordinal, Device& device, const bare::Input& input,
      const std::vector<char*>& output_names)
      : session_(session), device_(device), input_(input), bytes_(input.memory.size()) {
    device_.pin(const_cast<char*>(input.memory.data()), bytes_);
    OrtMemoryInfo* memory = nullptr;
    OrtAllocator* allocator = nullptr;
    check(api->CreateMemoryInfo("Cuda", OrtDeviceAllocator, ordinal, OrtMemTypeDefault, &memory));
    check(api->CreateAllocator(session, memory, &allocator));
    OrtTensorTypeAndShapeInfo* shape = nullptr;
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    size_t rank = 0;
    check(api->GetTensorTypeAndShape(input.value, &shape));
    check(api->GetTensorElementType(shape, &element));
    check(api->GetDimensionsCount(shape, &rank));
    std::vector<int64_t> dims(rank);
    check(api->GetDimensions(shape, dims.data(), rank));
    OrtValue* value = nullptr;
    check(api->CreateTensorAsOrtValue(allocator, dims.data(), rank, element, &value));
    check(api->GetTensorMutableData(value, &on_device_));
    check(api->CreateIoBinding(session, &binding_));
    check(api->BindInput(binding_, input.name, value));
    for (const char* name : output_names) check(api->BindOutputToDevice(binding_, name, memory));
    check(api->CreateRunOptions(&options_));
  }
  void run() {
    device_.copy_in(on_device_, input_.memory.data(), bytes_);
    check(api->RunWithBinding(session_, options_, binding_));
    if (outputs_.empty()) keep_outputs();
    for (const Output& output : outputs_) device_.copy_out(output.host, output.memory, output.bytes);
    device_.wait();
  }

 private:
  struct Output {
    void *memory, *host;
    size_t bytes;
  };
  // Keeps the outputs of the first run bound.
  void keep_outputs() {
    OrtAllocator* allocator = nullptr;
    check(api->GetAllocatorWithDefaultOptions(&allocator));
    OrtValue** values = nullptr;
    size_t count = 0;
    check(api->GetBoundOutputValues(binding_, allocator, &values, &count));
    for (size_t i = 0; i < count; ++i) {
      OrtTensorTypeAndShapeInfo* shape = nullptr;
      ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
      size_t elements = 0;
      check(api->GetTensorTypeAndShape(values[i], &shape));
      check(api->GetTensorElementType(shape, &element));
      check(api->GetTensorShapeElementCount(shape, &elements));
      Output output{nullptr, nullptr, elements * element_size(element)};
      check(api->GetTensorMutableData(values[i], &output.memory));
      output.host = device_.make_pinned(output.bytes);
      outputs_.push_back(output);
    }
  }
  OrtSession* session_;
  Device& device_;
  const bare::Input& input_;
  size_t bytes_;
  void* on_device_ = nullptr;
  OrtIoBinding* binding_ = nullptr;
  OrtRunOptions* options_ = nullptr;
  std::vector<Output> outputs_;
};

}  // namespace bare_cuda
