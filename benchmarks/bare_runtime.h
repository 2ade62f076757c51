// Shared by the programs of this folder that use ONNX Runtime's C API without Headroom.
#pragma once

#include <onnxruntime_c_api.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace bare {

inline const OrtApi* const api = OrtGetApiBase()->GetApi(9);
[[noreturn]] inline void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

inline void check(OrtStatus* status) {
  if (status != nullptr) fail(api->GetErrorMessage(status));
}

inline std::vector<int64_t> parse_dims(const char* text) {
  std::vector<int64_t> dims;
  for (char* end = nullptr;; text = end + 1) {
    dims.push_back(std::strtoll(text, &end, 10));
    if (*end != ',') return dims;
  }
}

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

inline size_t element_size(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
      return 1;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return 2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return 4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return 8;
    default:
      fail("the input's type is not supported");
  }
}

// The model's one input: memory, and the tensor that wraps it.
struct Input {
  char* name = nullptr;
  std::vector<char> memory;
  OrtValue* value = nullptr;
};

inline void make_input(OrtSession* session, OrtAllocator* allocator, std::vector<int64_t> wanted_dims,
                       Input& input) {
  size_t count = 0;
  check(api->SessionGetInputCount(session, &count));
  if (count != 1) fail("the model has " + std::to_string(count) + " inputs; this loop supports one");
  check(api->SessionGetInputName(session, 0, allocator, &input.name));
  OrtTypeInfo* type = nullptr;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  check(api->SessionGetInputTypeInfo(session, 0, &type));
  check(api->CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor == nullptr) fail("the input is not a tensor");
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0;
  check(api->GetTensorElementType(tensor, &element));
  check(api->GetDimensionsCount(tensor, &rank));
  std::vector<int64_t> dims(rank);
  check(api->GetDimensions(tensor, dims.data(), rank));
  api->ReleaseTypeInfo(type);
  if (!wanted_dims.empty()) dims = std::move(wanted_dims);
  size_t bytes = element_size(element);
  for (const int64_t dim : dims) {
    if (dim < 0) fail("the model's input has open dimensions; pass them with --dims");
    bytes *= static_cast<size_t>(dim);
  }
  input.memory.assign(bytes, 0);
  OrtMemoryInfo* cpu = nullptr;
  check(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &cpu));
  check(api->CreateTensorWithDataAsOrtValue(cpu, input.memory.data(), bytes, dims.data(), dims.size(),
                                            element, &input.value));
}

inline void use_exact_arena(OrtEnv* env, OrtSessionOptions* options) {
  constexpr int kSameAsRequested = 1;
  OrtArenaCfg* config = nullptr;
  OrtMemoryInfo* cpu = nullptr;
  check(api->CreateArenaCfg(0, kSameAsRequested, -1, -1, &config));
  check(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu));
  check(api->CreateAndRegisterAllocator(env, cpu, config));
  check(api->AddSessionConfigEntry(options, "session.use_env_allocators", "1"));
  check(api->DisableMemPattern(options));
}

// Without the arena, each tensor is a separate heap block.
inline void switch_off_arena(OrtSessionOptions* options) {
  check(api->DisableCpuMemArena(options));
  check(api->DisableMemPattern(options));
}

// The nearest-rank percentile.
inline int64_t percentile(const std::vector<int64_t>& sorted, int percent) {
  const size_t rank = (sorted.size() * static_cast<size_t>(percent) + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace bare
