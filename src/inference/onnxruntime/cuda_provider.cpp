#include "inference/onnxruntime/cuda_provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inference/onnxruntime/failure.h"

namespace headroom::onnxruntime {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kProvider = "CUDAExecutionProvider";
constexpr const char* kProviderFile = "libonnxruntime_providers_cuda.so";
constexpr uint32_t kApiWithPlacement = 24;

bool was_built_with_cuda(const Runtime& runtime) {
  char** names = nullptr;
  int count = 0;
  runtime.check(runtime.api().GetAvailableProviders(&names, &count));
  bool found = false;
  for (int i = 0; i < count; ++i) found = found || names[i] == kProvider;
  runtime.check(runtime.api().ReleaseAvailableProviders(names, count));
  return found;
}

const char* search_name(int32_t search) {
  constexpr std::array<const char*, 3> kNames{"EXHAUSTIVE", "HEURISTIC", "DEFAULT"};
  if (search < 0 || static_cast<std::size_t>(search) >= kNames.size())
    throw Failure{HR_ERROR_FAILED,
                  fmt::format("convolution search {} does not exist; use 0, 1 or 2", search)};
  return kNames.at(static_cast<std::size_t>(search));
}

// What is missing, in words that help: the library's own name neither the folder nor a way out.
Failure why_it_does_not_load(const Runtime& runtime, std::string_view message) {
  const fs::path folder = fs::path(runtime.file()).parent_path();
  std::error_code error;
  if (!fs::exists(folder / kProviderFile, error))
    return {HR_ERROR_UNAVAILABLE,
            fmt::format("ONNX Runtime {} has no CUDA provider: {} does not lie beside {}; put it there with "
                        "libonnxruntime_providers_shared.so, or name a library that has one in "
                        "HEADROOM_ONNXRUNTIME",
                        runtime.version(), kProviderFile, runtime.file())};
  return {
      HR_ERROR_UNAVAILABLE,
      fmt::format("ONNX Runtime's CUDA provider does not load: {}; the libraries of CUDA and cuDNN that it "
                  "was built with must be found (LD_LIBRARY_PATH)",
                  clean_message(message))};
}

using Options = std::vector<std::pair<const char*, std::string>>;

Options options_for(const hr_settings& settings, const CudaDevice& device) {
  return {{"device_id", std::to_string(device.ordinal())},
          {"arena_extend_strategy",
           settings.arena_same_as_requested != 0 ? "kSameAsRequested" : "kNextPowerOfTwo"},
          {"cudnn_conv_algo_search", search_name(settings.conv_search)},
          {"cudnn_conv_use_max_workspace", settings.conv_small_workspace != 0 ? "0" : "1"},
          {"enable_cuda_graph", settings.device_graph != 0 ? "1" : "0"}};
}

void add_provider(const Runtime& runtime, const OrtApi& api, OrtSessionOptions& options,
                  const Options& wanted, const CudaDevice& device) {
  OrtCUDAProviderOptionsV2* made = nullptr;
  runtime.check(api.CreateCUDAProviderOptions(&made));
  const Owned<OrtCUDAProviderOptionsV2> provider(made, api.ReleaseCUDAProviderOptions);
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : wanted) {
    keys.push_back(key);
    values.push_back(value.c_str());
  }
  runtime.check(api.UpdateCUDAProviderOptions(made, keys.data(), values.data(), keys.size()));
  runtime.check(api.UpdateCUDAProviderOptionsWithValue(made, "user_compute_stream", device.stream()));
  runtime.check(api.SessionOptionsAppendExecutionProvider_CUDA_V2(&options, made));
}

}  // namespace

void append_cuda(const Runtime& runtime, OrtSessionOptions& options, const hr_settings& settings,
                 const CudaDevice& device) {
  const OrtApi* api = runtime.newer_api(kOldestApiForCuda);
  if (api == nullptr)
    throw Failure{HR_ERROR_UNAVAILABLE, fmt::format("ONNX Runtime {} is too old for a CUDA device: 1.{} or "
                                                    "newer is needed",
                                                    runtime.version(), kOldestApiForCuda)};
  if (!was_built_with_cuda(runtime))
    throw Failure{HR_ERROR_UNAVAILABLE,
                  fmt::format("ONNX Runtime {} ({}) was built without its CUDA provider; name a library that "
                              "has one in HEADROOM_ONNXRUNTIME",
                              runtime.version(), runtime.file())};
  const Options wanted = options_for(settings, device);
  try {
    add_provider(runtime, *api, options, wanted, device);
  } catch (const Failure& failure) {
    throw why_it_does_not_load(runtime, failure.message);
  } catch (
      const std::exception& exception) {  // thrown through the C API by 1.29 when a provider does not load
    throw why_it_does_not_load(runtime, exception.what());
  }
  // Costs nothing at run time, and tells what stayed on the CPU.
  if (runtime.newer_api(kApiWithPlacement) != nullptr)
    runtime.check(api->AddSessionConfigEntry(&options, "session.record_ep_graph_assignment_info", "1"));
}

hr_placement placement_of(const Runtime& runtime, const OrtSession& session) {
  hr_placement placement{sizeof(hr_placement), -1, -1, {}};
  const OrtApi* api = runtime.newer_api(kApiWithPlacement);
  if (api == nullptr) return placement;
  const OrtEpAssignedSubgraph* const* parts = nullptr;
  size_t part_count = 0;
  runtime.check(api->Session_GetEpGraphAssignmentInfo(&session, &parts, &part_count));
  placement.nodes_on_device = placement.nodes_elsewhere = 0;
  std::map<std::string, int> elsewhere;
  for (size_t i = 0; i < part_count; ++i) {
    const char* provider = nullptr;
    const OrtEpAssignedNode* const* nodes = nullptr;
    size_t node_count = 0;
    runtime.check(api->EpAssignedSubgraph_GetEpName(parts[i], &provider));
    runtime.check(api->EpAssignedSubgraph_GetNodes(parts[i], &nodes, &node_count));
    if (provider == kProvider) {
      placement.nodes_on_device += static_cast<int32_t>(node_count);
      continue;
    }
    placement.nodes_elsewhere += static_cast<int32_t>(node_count);
    for (size_t n = 0; n < node_count; ++n) {
      const char* operation = nullptr;
      runtime.check(api->EpAssignedNode_GetOperatorType(nodes[n], &operation));
      ++elsewhere[operation == nullptr ? "?" : operation];
    }
  }
  std::string text;
  for (const auto& [operation, count] : elsewhere)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", operation,
                        count > 1 ? fmt::format(" x{}", count) : "");
  const std::size_t length = std::min(text.size(), sizeof placement.elsewhere - 1);
  std::memcpy(placement.elsewhere, text.data(), length);
  placement.elsewhere[length] = '\0';
  return placement;
}

Owned<OrtMemoryInfo> cuda_memory(const Runtime& runtime, unsigned ordinal) {
  OrtMemoryInfo* made = nullptr;
  runtime.check(runtime.api().CreateMemoryInfo("Cuda", OrtDeviceAllocator, static_cast<int>(ordinal),
                                               OrtMemTypeDefault, &made));
  return {made, runtime.api().ReleaseMemoryInfo};
}

}  // namespace headroom::onnxruntime
