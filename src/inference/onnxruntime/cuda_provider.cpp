#include "inference/onnxruntime/cuda_provider.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inference/onnxruntime/failure.h"
#include "inference/plugin/text_field.h"

namespace headroom::onnxruntime {
namespace {
namespace fs = std::filesystem;

struct Provider {
  std::string_view name, title;  // ONNX Runtime's name, and the name for error messages
  const char* file;
  const char* libraries;  // the libraries that it needs
};
constexpr Provider kCuda{"CUDAExecutionProvider", "CUDA", "libonnxruntime_providers_cuda.so",
                         "CUDA and cuDNN"};
constexpr Provider kTensorRt{"TensorrtExecutionProvider", "TensorRT", "libonnxruntime_providers_tensorrt.so",
                             "TensorRT, CUDA and cuDNN"};
constexpr uint32_t kApiWithPlacement = 24;

bool was_built_with(const Runtime& runtime, const Provider& provider) {
  char** names = nullptr;
  int count = 0;
  runtime.check(runtime.api().GetAvailableProviders(&names, &count));
  bool found = false;
  for (int i = 0; i < count; ++i) found = found || names[i] == provider.name;
  runtime.check(runtime.api().ReleaseAvailableProviders(names, count));
  return found;
}

const char* search_name(int32_t search) {
  constexpr std::array<const char*, 3> kNames{"EXHAUSTIVE", "HEURISTIC", "DEFAULT"};
  if (search < 0 || static_cast<std::size_t>(search) >= kNames.size())
    throw Failure{HR_ERROR_FAILED, fmt::format("invalid convolution search {}; use 0, 1 or 2", search)};
  return kNames.at(static_cast<std::size_t>(search));
}

// Explains what is missing. ONNX Runtime's own message names neither the searched folder nor a fix.
Failure explain_load_failure(const Runtime& runtime, const Provider& provider, std::string_view message) {
  const fs::path folder = fs::path(runtime.file()).parent_path();
  std::error_code error;
  if (!fs::exists(folder / provider.file, error))
    return {
        HR_ERROR_UNAVAILABLE,
        fmt::format(
            "ONNX Runtime {} has no {} provider: {} is missing next to {}; put it there with "
            "libonnxruntime_providers_shared.so, or set HEADROOM_ONNXRUNTIME to a library with this provider",
            runtime.version(), provider.title, provider.file, runtime.file())};
  return {HR_ERROR_UNAVAILABLE, fmt::format("ONNX Runtime's {} provider does not load: {}; install the "
                                            "libraries of {}, or add their folder to LD_LIBRARY_PATH",
                                            provider.title, clean_message(message), provider.libraries)};
}

using Options = std::vector<std::pair<const char*, std::string>>;

// The options as the C API takes them. The pointers refer to the options.
struct OptionArrays {
  std::vector<const char*> keys, values;
};
OptionArrays arrays_of(const Options& options) {
  OptionArrays arrays;
  for (const auto& [key, value] : options) {
    arrays.keys.push_back(key);
    arrays.values.push_back(value.c_str());
  }
  return arrays;
}

Options options_for(const hr_settings& settings, const plugin::CudaDevice& device, bool captures) {
  return {{"device_id", std::to_string(device.ordinal())},
          {"arena_extend_strategy",
           settings.arena_same_as_requested != 0 ? "kSameAsRequested" : "kNextPowerOfTwo"},
          {"cudnn_conv_algo_search", search_name(settings.conv_search)},
          {"cudnn_conv_use_max_workspace", settings.conv_small_workspace != 0 ? "0" : "1"},
          {"enable_cuda_graph", captures ? "1" : "0"}};
}

// Returns the API. Throws if this library was built without the provider.
const OrtApi& api_with(const Runtime& runtime, const Provider& provider) {
  const OrtApi* api = runtime.newer_api(kOldestApiForCuda);
  if (api == nullptr)
    throw Failure{HR_ERROR_UNAVAILABLE,
                  fmt::format("ONNX Runtime {} is too old for a CUDA device; install 1.{} or newer",
                              runtime.version(), kOldestApiForCuda)};
  if (!was_built_with(runtime, provider))
    throw Failure{HR_ERROR_UNAVAILABLE,
                  fmt::format("ONNX Runtime {} ({}) was built without the {} provider; set "
                              "HEADROOM_ONNXRUNTIME to a library with this provider",
                              runtime.version(), runtime.file(), provider.title)};
  return *api;
}

// Calls `add`. If the provider does not load, throws a Failure that explains why.
template <class Add>
void add_or_explain(const Runtime& runtime, const Provider& provider, const Add& add) {
  try {
    add();
  } catch (const Failure& failure) {
    throw explain_load_failure(runtime, provider, failure.message);
  } catch (
      // Version 1.29 throws this through the C API when a provider does not load.
      const std::exception& exception) {
    throw explain_load_failure(runtime, provider, exception.what());
  }
}

// Records which provider runs which node. This costs nothing at run time.
void record_placement(const Runtime& runtime, const OrtApi& api, OrtSessionOptions& options) {
  if (runtime.newer_api(kApiWithPlacement) != nullptr)
    runtime.check(api.AddSessionConfigEntry(&options, "session.record_ep_graph_assignment_info", "1"));
}

void add_tensorrt(const Runtime& runtime, const OrtApi& api, OrtSessionOptions& options,
                  const Options& wanted, const plugin::CudaDevice& device) {
  OrtTensorRTProviderOptionsV2* made = nullptr;
  runtime.check(api.CreateTensorRTProviderOptions(&made));
  const Owned<OrtTensorRTProviderOptionsV2> provider(made, api.ReleaseTensorRTProviderOptions);
  const auto [keys, values] = arrays_of(wanted);
  runtime.check(api.UpdateTensorRTProviderOptions(made, keys.data(), values.data(), keys.size()));
  runtime.check(api.UpdateTensorRTProviderOptionsWithValue(made, "user_compute_stream", device.stream()));
  runtime.check(api.SessionOptionsAppendExecutionProvider_TensorRT_V2(&options, made));
}

void add_provider(const Runtime& runtime, const OrtApi& api, OrtSessionOptions& options,
                  const Options& wanted, const plugin::CudaDevice& device) {
  OrtCUDAProviderOptionsV2* made = nullptr;
  runtime.check(api.CreateCUDAProviderOptions(&made));
  const Owned<OrtCUDAProviderOptionsV2> provider(made, api.ReleaseCUDAProviderOptions);
  const auto [keys, values] = arrays_of(wanted);
  runtime.check(api.UpdateCUDAProviderOptions(made, keys.data(), values.data(), keys.size()));
  runtime.check(api.UpdateCUDAProviderOptionsWithValue(made, "user_compute_stream", device.stream()));
  runtime.check(api.SessionOptionsAppendExecutionProvider_CUDA_V2(&options, made));
}

}  // namespace

void append_cuda(const Runtime& runtime, OrtSessionOptions& options, const hr_settings& settings,
                 const plugin::CudaDevice& device) {
  const OrtApi& api = api_with(runtime, kCuda);
  const Options wanted = options_for(settings, device, settings.device_graph != 0);
  add_or_explain(runtime, kCuda, [&] { add_provider(runtime, api, options, wanted, device); });
  record_placement(runtime, api, options);
}

void append_tensorrt(const Runtime& runtime, OrtSessionOptions& options, const hr_settings& settings,
                     const plugin::CudaDevice& device, const std::string& cache) {
  const OrtApi& api = api_with(runtime, kTensorRt);
  const Options wanted{{"device_id", std::to_string(device.ordinal())},
                       {"trt_engine_cache_enable", "1"},
                       {"trt_engine_cache_path", cache},
                       {"trt_timing_cache_enable", "1"},
                       {"trt_timing_cache_path", cache},
                       {"trt_cuda_graph_enable", settings.device_graph != 0 ? "1" : "0"}};
  add_or_explain(runtime, kTensorRt, [&] { add_tensorrt(runtime, api, options, wanted, device); });
  const Options rest = options_for(settings, device, false);
  add_or_explain(runtime, kCuda, [&] { add_provider(runtime, api, options, rest, device); });
  record_placement(runtime, api, options);
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
    if (provider == kCuda.name || provider == kTensorRt.name) {
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
  plugin::copy_text(placement.elsewhere, text);
  return placement;
}

Owned<OrtMemoryInfo> cuda_memory(const Runtime& runtime, unsigned ordinal) {
  OrtMemoryInfo* made = nullptr;
  runtime.check(runtime.api().CreateMemoryInfo("Cuda", OrtDeviceAllocator, static_cast<int>(ordinal),
                                               OrtMemTypeDefault, &made));
  return {made, runtime.api().ReleaseMemoryInfo};
}

}  // namespace headroom::onnxruntime
