// Loads a model: converts the settings to session options, adds the device's provider, and prepares models
// whose weights are mapped.
#include "inference/onnxruntime/model_loading.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "base/files.h"
#include "base/unfinished.h"
#include "types/external_data.h"
#include "types/runtime_settings.h"

namespace headroom::onnxruntime {
namespace {
namespace fs = std::filesystem;

// The plug-in onnxruntime_tensorrt is built from the same code. On a device, its sessions use ONNX Runtime's
// TensorRT provider, and the CUDA provider for the remaining nodes. It has its own name so that a report
// shows which provider was used.
#ifdef HEADROOM_PROVIDER_TENSORRT
constexpr bool kUsesTensorRt = true;
#else
constexpr bool kUsesTensorRt = false;
#endif

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
// ONNX Runtime 1.16 is the first version that accepts the caller's CUDA stream.
constexpr uint32_t kOldestApiForCuda = 16;

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
    throw failed("invalid convolution search {}; use 0, 1 or 2", search);
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

// These settings map to options of the CUDA provider:
//   arena_same_as_requested → arena_extend_strategy
//   conv_search             → cudnn_conv_algo_search
//   conv_small_workspace    → cudnn_conv_use_max_workspace
//   device_graph            → enable_cuda_graph
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
    throw unavailable("ONNX Runtime {} is too old for a CUDA device; install 1.{} or newer",
                      runtime.version(), kOldestApiForCuda);
  if (!was_built_with(runtime, provider))
    throw unavailable(
        "ONNX Runtime {} ({}) was built without the {} provider; set "
        "HEADROOM_ONNXRUNTIME to a library with this provider",
        runtime.version(), runtime.file(), provider.title);
  return *api;
}

// Adds a provider with the functions of the C API for it. If it does not load, throws a Failure that explains
// why.
template <class Created, class Create, class Update, class SetStream, class Append>
void add_provider(const Runtime& runtime, OrtSessionOptions& options, const Provider& provider,
                  const Options& wanted, const plugin::CudaDevice& device,
                  void(ORT_API_CALL* release)(Created*), Create create, Update update, SetStream set_stream,
                  Append append) {
  try {
    const auto made = runtime.make(release, create);
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : wanted) {
      keys.push_back(key);
      values.push_back(value.c_str());
    }
    runtime.check(update(made.get(), keys.data(), values.data(), keys.size()));
    runtime.check(set_stream(made.get(), "user_compute_stream", device.stream()));
    runtime.check(append(&options, made.get()));
  } catch (const Failure& failure) {
    throw explain_load_failure(runtime, provider, failure.message);
  } catch (const std::exception& exception) {
    // Version 1.29 throws this through the C API when a provider does not load.
    throw explain_load_failure(runtime, provider, exception.what());
  }
}

void add_cuda(const Runtime& runtime, const OrtApi& api, OrtSessionOptions& options, const Options& wanted,
              const plugin::CudaDevice& device) {
  add_provider(runtime, options, kCuda, wanted, device, api.ReleaseCUDAProviderOptions,
               api.CreateCUDAProviderOptions, api.UpdateCUDAProviderOptions,
               api.UpdateCUDAProviderOptionsWithValue, api.SessionOptionsAppendExecutionProvider_CUDA_V2);
}

// Returns the folder for prepared models and engines, which persists across runs; creates it if it is
// missing. Throws Failure.
std::string engine_cache() {
  const char* named = std::getenv("HEADROOM_ENGINE_CACHE");
  std::string folder = named != nullptr && *named != '\0' ? named : "engine_cache";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw failed("cannot create {}, the folder for prepared models: {}", folder, error.message());
  return folder;
}

// Adds the provider of this plug-in for the device. Throws Failure: HR_ERROR_UNAVAILABLE if the library has
// no such provider, or if the provider does not load.
void append_provider(const Runtime& runtime, OrtSessionOptions& options, const hr_settings& settings,
                     const plugin::CudaDevice& device) {
  const OrtApi& api = api_with(runtime, kUsesTensorRt ? kTensorRt : kCuda);
  if (kUsesTensorRt) {
    // The engines that the provider builds are stored in the cache, by model, GPU and version (checked by
    // ONNX Runtime). Building an engine takes minutes and counts as part of the load.
    const std::string cache = engine_cache();
    const Options wanted{{"device_id", std::to_string(device.ordinal())},
                         {"trt_engine_cache_enable", "1"},
                         {"trt_engine_cache_path", cache},
                         {"trt_timing_cache_enable", "1"},
                         {"trt_timing_cache_path", cache},
                         {"trt_cuda_graph_enable", settings.device_graph != 0 ? "1" : "0"}};
    add_provider(runtime, options, kTensorRt, wanted, device, api.ReleaseTensorRTProviderOptions,
                 api.CreateTensorRTProviderOptions, api.UpdateTensorRTProviderOptions,
                 api.UpdateTensorRTProviderOptionsWithValue,
                 api.SessionOptionsAppendExecutionProvider_TensorRT_V2);
  }
  // With TensorRT, the CUDA provider gets the nodes that TensorRT does not support.
  add_cuda(runtime, api, options, options_for(settings, device, settings.device_graph != 0 && !kUsesTensorRt),
           device);
  // Records which provider runs which node. This costs nothing at run time.
  if (runtime.newer_api(kApiWithPlacement) != nullptr)
    runtime.check(api.AddSessionConfigEntry(&options, "session.record_ep_graph_assignment_info", "1"));
}

GraphOptimizationLevel graph_level_of(int32_t level) {
  static_assert(ORT_DISABLE_ALL == 0 && ORT_ENABLE_EXTENDED == 2 && ORT_ENABLE_ALL == 99);
  if ((level < 0 || level > 2) && level != 99)
    throw failed("invalid graph level {}; use 0, 1, 2 or 99", level);
  return static_cast<GraphOptimizationLevel>(level);
}

// Maps the settings to session options:
//   threads → intra-op threads (operators run one after another)
//   arena, memory_pattern, prepacking, graph_level, spinning → the options of these names
//   arena_same_as_requested → the environment's arena
//
// With arena_same_as_requested, all sessions of the process share the environment's arena. A session's own
// arena always grows by powers of two.
//
// With a `device`, the arena settings apply to the device's arena and the CPU's arena keeps its default
// (options_for()). Throws Failure.
Owned<OrtSessionOptions> make_session_options(Runtime& runtime, const hr_settings& settings,
                                              const plugin::CudaDevice* device) {
  if (settings.threads < 0)
    throw failed("{} threads is invalid; use 0 for the runtime's choice", settings.threads);
  if (settings.precision > static_cast<int32_t>(Precision::fp32))
    throw failed(
        "ONNX Runtime computes in the types of the model's file; export the model in another type, "
        "or omit --precision");
  // DisableCpuMemArena() affects only the CPU's arena.
  if (device != nullptr && settings.arena == 0)
    throw failed(
        "ONNX Runtime cannot disable the arena of a GPU; omit arena=off, or use "
        "extend=same_as_requested for exact growth");
  const OrtApi& api = runtime.api();
  auto options = runtime.make(api.ReleaseSessionOptions, api.CreateSessionOptions);
  OrtSessionOptions* const made = options.get();
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
  if (settings.spinning == 2)
    runtime.check(api.AddSessionConfigEntry(made, "session.force_spinning_stop", "1"));
  if (device != nullptr) {
    append_provider(runtime, *made, settings, *device);
  } else if (kUsesTensorRt) {
    throw unavailable("TensorRT runs on GPUs only; use --device cuda:N, or --backend onnxruntime");
  } else if (settings.shared_arena_bytes > 0) {
    runtime.make_arena(settings.shared_arena_bytes);
    runtime.check(api.AddSessionConfigEntry(made, kUseEnvAllocators, "1"));
    // Keep weights out of the arena: they would leave holes in it when a session ends.
    runtime.check(api.AddSessionConfigEntry(made, "session.use_device_allocator_for_initializers", "1"));
  } else if (settings.arena != 0 && settings.arena_same_as_requested != 0) {
    runtime.make_arena(0);
    runtime.check(api.AddSessionConfigEntry(made, kUseEnvAllocators, "1"));
  }
  return options;
}

// Returns the processor's feature flags. An optimized graph depends on them, because its layouts are
// chosen for the processor.
std::string processor_features() {
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);)
    if (line.starts_with("flags") || line.starts_with("Features")) return line;
  return {};
}

fs::path prepared_file(const Runtime& runtime, const fs::path& model, const hr_settings& settings) {
  std::error_code error;
  const auto size = fs::file_size(model, error);
  const auto changed = fs::last_write_time(model, error).time_since_epoch().count();
  if (error) throw failed("cannot read {}: {}", model.string(), error.message());
  const std::string key = fmt::format("{}|{}|{}|{}|{}|{}", fs::absolute(model, error).string(), size, changed,
                                      runtime.version(), settings.graph_level, processor_features());
  return fs::path(engine_cache()) /
         fmt::format("{}-{:016x}.ort", model.stem().string(), std::hash<std::string>{}(key));
}

// The state of the model's external weight files, one line per file: size, modification time, name. The
// prepared file contains their weights, and they can change while the model's own file stays the same.
std::string state_of(const std::set<std::string>& names, const fs::path& folder) {
  std::string state;
  for (const std::string& name : names) {
    std::error_code error;
    const auto size = fs::file_size(folder / name, error);
    const auto changed = fs::last_write_time(folder / name, error).time_since_epoch().count();
    state += error ? fmt::format("absent - {}\n", name) : fmt::format("{} {} {}\n", size, changed, name);
  }
  return state;
}
std::set<std::string> external_files(const fs::path& model) {
  ExternalDataFinder finder;
  plugin::value_or_throw(file_fingerprint(model, [&](std::string_view piece) { finder.take(piece); }));
  return finder.names();
}
fs::path state_path(const fs::path& prepared) { return prepared.string() + ".weights"; }
bool matches_weights(const fs::path& prepared, const fs::path& folder) {
  std::ifstream file(state_path(prepared));
  std::string state;
  std::set<std::string> names;
  for (std::string line; std::getline(file, line); state += line + "\n")
    names.insert(line.substr(std::min(line.size(), line.find(' ', line.find(' ') + 1) + 1)));
  return file.eof() && state == state_of(names, folder);
}

void prepare_model(Runtime& runtime, const std::string& model, const hr_settings& settings,
                   const fs::path& file) {
  auto unfinished = plugin::value_or_throw(UnfinishedFile::create(file));
  const std::string weights = state_of(external_files(model), fs::path(model).parent_path());
  const OrtApi& api = runtime.api();
  const auto options = make_session_options(runtime, settings, nullptr);
  runtime.check(api.SetOptimizedModelFilePath(options.get(), unfinished.path().c_str()));
  runtime.check(api.AddSessionConfigEntry(options.get(), "session.save_model_format", "ORT"));
  runtime.make(api.ReleaseSession, api.CreateSession, runtime.env(), model.c_str(), options.get());
  // In this order, a process that is killed here leaves no prepared file with the state of other weights.
  std::error_code ignored;
  fs::remove(file, ignored);
  plugin::value_or_throw(write_file_atomically(state_path(file), weights));
  if (auto finished = unfinished.finish(); !finished)
    throw failed("cannot write {}: {}", file.string(), finished.error().why);
}

// Models in ONNX Runtime's own format (.ort), whose weights the session maps from the file. The system can
// drop such pages and read them again, and loading does not copy the weights. Example: ch_PP-OCRv4_rec
// (10.8 MB) needs 14.8 MB of anonymous memory after loading, instead of 35.5 MB from the .onnx file.
//
// Returns the .ort file of this model, optimized for this machine, in HEADROOM_ENGINE_CACHE. The first call
// loads the whole model to make the file, so it needs as much memory as an ordinary load. It makes the file
// again if the model or its external weights change. A model that is an .ort file is returned as it is.
// Throws Failure.
std::string mapped_model(Runtime& runtime, const std::string& path, const hr_settings& settings) {
  if (fs::path(path).extension() == ".ort") return path;
  const fs::path file = prepared_file(runtime, path, settings);
  std::error_code error;
  if (!fs::exists(file, error) || !matches_weights(file, fs::path(path).parent_path()))
    prepare_model(runtime, path, settings, file);
  return file.string();
}

// Throws Failure if this process has not mapped the file. Libraries before 1.29 silently ignore the option;
// the measured figures would then be those of an ordinary load.
void require_mapped(const Runtime& runtime, const std::string& file) {
  std::error_code error;
  const std::string whole = fs::canonical(file, error).string();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (!error && line.ends_with(whole)) return;
  throw unavailable("ONNX Runtime {} cannot map models; use version 1.29 or newer, or omit mapped=on",
                    runtime.version());
}

}  // namespace

std::shared_ptr<OrtSession> create_session(Runtime& runtime, const char* path, const hr_settings& settings,
                                           const plugin::CudaDevice* device) {
  if (settings.mapped != 0 && device != nullptr)
    throw failed("a GPU session copies the weights to the GPU, so they cannot be mapped; omit mapped=on");
  const OrtApi& api = runtime.api();
  const auto options = make_session_options(runtime, settings, device);
  const std::string file = settings.mapped != 0 ? mapped_model(runtime, path, settings) : path;
  if (settings.mapped != 0)
    for (const char* key :
         {"session.use_memory_mapped_ort_model", "session.use_ort_model_bytes_for_initializers"})
      runtime.check(api.AddSessionConfigEntry(options.get(), key, "1"));
  std::shared_ptr<OrtSession> session =
      runtime.make(api.ReleaseSession, api.CreateSession, runtime.env(), file.c_str(), options.get());
  if (settings.mapped != 0) require_mapped(runtime, file);
  return session;
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
  return runtime.make(runtime.api().ReleaseMemoryInfo, runtime.api().CreateMemoryInfo, "Cuda",
                      OrtDeviceAllocator, static_cast<int>(ordinal), OrtMemTypeDefault);
}

}  // namespace headroom::onnxruntime
