#include "inference/tensorrt/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/files.h"
#include "base/text.h"
#include "inference/tensorrt/engine_builder.h"
#include "inference/tensorrt/messages.h"

namespace headroom::tensorrt {
namespace {

std::string file_of(const char* name) { return fmt::format("lib{}.so.{}", name, NV_TENSORRT_MAJOR); }

// Opens libNAME.so.MAJOR from HEADROOM_TENSORRT or the system. Returns null on failure; see dlerror().
void* try_library(const char* name) {
  const char* folder = std::getenv("HEADROOM_TENSORRT");
  const bool named = folder != nullptr && *folder != '\0';
  const std::string path = named ? std::string(folder) + "/" + file_of(name) : file_of(name);
  // RTLD_GLOBAL, because the builder resources that libnvinfer opens need its symbols.
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
}
void* open_library(const char* name) {
  if (void* library = try_library(name)) return library;
  throw unavailable(
      "TensorRT's {} was not found ({}); install TensorRT {} (on a Jetson, it is part of "
      "JetPack), or set HEADROOM_TENSORRT to the folder of its libraries",
      file_of(name), plugin::last_dl_error(), NV_TENSORRT_MAJOR);
}

// Registers TensorRT's plug-in layers, which ONNX does not have (EfficientNMS_TRT, with which most
// exported detectors end). They are in a separate library, which not every installation has and not every
// engine needs.
bool register_plugins(Logger& logger) {
  using Register = bool (*)(void* logger, const char* name_space);
  void* const library = try_library("nvinfer_plugin");
  if (library == nullptr) return false;
  const auto function = reinterpret_cast<Register>(::dlsym(library, "initLibNvInferPlugins"));
  return function != nullptr && function(&logger, "");
}

// "Cannot find plugin: EfficientNMS_TRT", "getPluginCreator could not find plugin: …"
bool reports_missing_plugin(std::string_view errors) {
  const std::string words = to_lower(errors);
  return words.find("cannot find plugin") != std::string::npos ||
         words.find("could not find plugin") != std::string::npos;
}

template <class Function>
Function find(void* library, const char* library_name, const char* name) {
  const auto function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw unavailable("the opened {} is not TensorRT's library: it has no {}", library_name, name);
  return function;
}

Logger& process_logger() {
  static Logger* const kLogger = new Logger;
  return *kLogger;
}

// 13000 → "13.0".
std::string cuda_version() {
  const auto get = reinterpret_cast<cuda::Code (*)(int*)>(::dlsym(RTLD_DEFAULT, "cuDriverGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != cuda::kSuccess) return {};
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_version() {
  const auto text = read_small_file("/sys/module/nvidia/version");
  return text ? std::string(trim(*text)) : std::string();
}

}  // namespace

void Logger::log(Severity severity, const nvinfer1::AsciiChar* message) noexcept {
  if (message == nullptr || severity > Severity::kWARNING) return;
  std::fprintf(stderr, "TensorRT: %s\n", message);
  if (severity == Severity::kWARNING) return;
  try {
    const std::lock_guard lock(mutex_);
    std::string text = plugin::without_source_places(cause_of(message));
    if (first_.empty()) first_ = text;
    last_ = std::move(text);
  } catch (...) {  // out of memory for the text: the caller still sees that its call failed
  }
}

std::string Logger::take_errors() {
  const std::lock_guard lock(mutex_);
  std::string text = first_ == last_ ? first_ : fmt::format("{}; {}", first_, last_);
  first_.clear();
  last_.clear();
  return text;
}

Library::Library() : runtime_(open_library("nvinfer")), logger_(process_logger()) {
  const auto version_of = find<std::int32_t (*)()>(runtime_, "libnvinfer", "getInferLibVersion");
  if (Dl_info place{}; ::dladdr(reinterpret_cast<void*>(version_of), &place) != 0)
    folder_ = std::filesystem::path(place.dli_fname).parent_path();
  version_ = version_text(version_of());
  if (major_of(version_of()) != NV_TENSORRT_MAJOR)
    throw unavailable(
        "this plug-in was built for TensorRT {}, but found {}; rebuild it "
        "with headroom build-plugin tensorrt, or install TensorRT {}",
        NV_TENSORRT_MAJOR, version_, NV_TENSORRT_MAJOR);
  has_plugins_ = register_plugins(logger_);
}

void* Library::make_object(const char* function, const char* failed) {
  const auto make = find<void* (*)(void* logger, std::int32_t version)>(runtime_, "libnvinfer", function);
  void* made = make(&logger_, NV_TENSORRT_VERSION);
  if (made == nullptr) throw failure_of(failed);
  return made;
}

void* Library::make_onnx_parser(nvinfer1::INetworkDefinition& network, int version) {
  if (parser_ == nullptr) parser_ = open_library("nvonnxparser");
  using Make = void* (*)(void* network, void* logger, int version);
  const auto make = find<Make>(parser_, "libnvonnxparser", "createNvOnnxParser_INTERNAL");
  void* made = make(&network, &logger_, version);
  if (made == nullptr) throw failure_of("TensorRT's ONNX parser does not start");
  return made;
}

Failure Library::failure_of(std::string what, hr_error_kind kind) {
  const std::string errors = logger_.take_errors();
  if (plugin::mentions_out_of_memory(errors)) kind = HR_ERROR_OUT_OF_MEMORY;
  if (reports_missing_plugin(errors))
    return {
        kind,
        fmt::format("{}: {}",
                    has_plugins_
                        ? "it needs a plug-in that TensorRT does not include, which Headroom cannot load"
                        : "it needs TensorRT's plug-ins, but " + file_of("nvinfer_plugin") + " was not found",
                    errors)};
  if (errors.empty()) return {kind, std::move(what)};
  const std::string cure = cure_of(errors, folder_);
  return {kind, fmt::format("{}{}{} ({})", errors, cure.empty() ? "" : "; ", cure, what)};
}

ElementType element_type_of(nvinfer1::DataType type) {
  using Type = nvinfer1::DataType;
  constexpr std::pair<Type, ElementType> kTypes[] = {
    {Type::kFLOAT, ElementType::float32},
    {Type::kHALF, ElementType::float16},
#if NV_TENSORRT_MAJOR >= 10
    {Type::kBF16, ElementType::bfloat16},
    {Type::kINT64, ElementType::int64},
#endif
    {Type::kINT8, ElementType::int8},
    {Type::kUINT8, ElementType::uint8},
    {Type::kINT32, ElementType::int32},
    {Type::kBOOL, ElementType::boolean}
  };
  for (const auto& [theirs, ours] : kTypes)
    if (theirs == type) return ours;
  return ElementType::unknown;
}

std::string dims_text(const nvinfer1::Dims& dims) {
  std::string text = "[";
  for (int32_t i = 0; i < dims.nbDims; ++i) text += (i > 0 ? "," : "") + std::to_string(dims.d[i]);
  return text + "]";
}

EngineMachine machine_here(const cuda::Driver& driver, unsigned ordinal,
                           const std::string& tensorrt_version) {
  const cuda::DeviceFacts facts = driver.facts(ordinal);
  const auto [major, minor] = driver.compute_capability(ordinal);
  return {facts.name,     major > 0 ? fmt::format("{}.{}", major, minor) : "",
          facts.uuid,     driver_version(),
          cuda_version(), tensorrt_version};
}

void require_compatible_engine(const std::filesystem::path& engine, const EngineMachine& here) {
  const auto record = value_or_throw(read_record(engine));
  if (!record) return;
  auto why = why_incompatible(*record, here);
  if (!why) why = value_or_throw(why_stale(*record, engine));
  if (!why) return;
  const std::string model = record->model_path.empty() ? "MODEL.onnx" : shell_word(record->model_path);
  // The fix repeats the engine's settings, so that the new engine gives comparable figures.
  std::string same_settings = fmt::format("--imgsz {}", record->settings.image_size);
  if (record->settings.precision != name_of(Precision::fp32))
    same_settings += " --" + record->settings.precision;
  if (record->settings.workspace > Bytes{})
    same_settings += fmt::format(" --workspace {}", exact_size(record->settings.workspace));
  throw failed("{}; rebuild it with: headroom build-engine {} {} --out {} --force", *why, model,
               same_settings, shell_word(engine.string()));
}

}  // namespace headroom::tensorrt
