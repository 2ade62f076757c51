#include "inference/tensorrt/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "inference/tensorrt/precision.h"

namespace headroom::tensorrt {
namespace {

// What a person does about a missing library.
constexpr const char* kHowToGetIt =
    "install TensorRT {0} (on a Jetson it comes with JetPack), or name the folder of its libraries in "
    "HEADROOM_TENSORRT";

std::string last_dl_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "it cannot be loaded" : text;
}

std::string file_of(const char* name) { return fmt::format("lib{}.so.{}", name, NV_TENSORRT_MAJOR); }

// libNAME.so.MAJOR, of the folder that is named or of the system; null with dlerror().
void* try_library(const char* name) {
  const char* folder = std::getenv("HEADROOM_TENSORRT");
  const bool named = folder != nullptr && *folder != '\0';
  const std::string path = named ? std::string(folder) + "/" + file_of(name) : file_of(name);
  // Global: libnvinfer opens its builder's resources by itself, and they take its symbols.
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
}
void* open_library(const char* name) {
  if (void* library = try_library(name)) return library;
  throw Failure{HR_ERROR_UNAVAILABLE,
                fmt::format("TensorRT's {} was not found ({}); {}", file_of(name), last_dl_error(),
                            fmt::format(fmt::runtime(kHowToGetIt), NV_TENSORRT_MAJOR))};
}

// TensorRT's own layers beyond ONNX's (EfficientNMS_TRT, which most exported detectors end in) are in a
// library of their own, which registers them when it is asked to. Not every installation has it, nor every
// engine need.
bool register_plugins(Logger& logger) {
  using Register = bool (*)(void* logger, const char* name_space);
  void* const library = try_library("nvinfer_plugin");
  if (library == nullptr) return false;
  const auto function = reinterpret_cast<Register>(::dlsym(library, "initLibNvInferPlugins"));
  return function != nullptr && function(&logger, "");
}

// "Cannot find plugin: EfficientNMS_TRT", "getPluginCreator could not find plugin: …"
bool misses_a_plugin(std::string_view errors) {
  const std::string words = to_lower(errors);
  return words.find("cannot find plugin") != std::string::npos ||
         words.find("could not find plugin") != std::string::npos;
}

template <class Function>
Function find(void* library, const char* library_name, const char* name) {
  const auto function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw Failure{HR_ERROR_UNAVAILABLE,
                  fmt::format("the {} that was opened is not TensorRT's: it has no {}", library_name, name)};
  return function;
}

Logger& process_logger() {
  static Logger* const kLogger = new Logger;
  return *kLogger;
}

using MakeFunction = void* (*)(void* logger, std::int32_t version);
using MakeParserFunction = void* (*)(void* network, void* logger, int version);

}  // namespace

void Logger::log(Severity severity, const nvinfer1::AsciiChar* message) noexcept {
  if (message == nullptr || severity > Severity::kWARNING) return;
  std::fprintf(stderr, "TensorRT: %s\n", message);
  if (severity == Severity::kWARNING) return;
  try {
    const std::lock_guard lock(mutex_);
    std::string text = plugin::without_source_places(message);
    if (first_.empty()) first_ = text;
    last_ = std::move(text);
  } catch (...) {  // without memory for its text the error is still the caller's
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
  version_ = version_text(version_of());
  if (major_of(version_of()) != NV_TENSORRT_MAJOR)
    throw Failure{
        HR_ERROR_UNAVAILABLE,
        fmt::format(
            "this plug-in was built for TensorRT {} and found {}; build Headroom with the headers of that "
            "version (-DTENSORRT_INCLUDE_DIR=…), or install TensorRT {}",
            NV_TENSORRT_MAJOR, version_, NV_TENSORRT_MAJOR)};
  has_plugins_ = register_plugins(logger_);
}

Owned<nvinfer1::IRuntime> Library::make_runtime() {
  const auto make = find<MakeFunction>(runtime_, "libnvinfer", "createInferRuntime_INTERNAL");
  Owned<nvinfer1::IRuntime> made(static_cast<nvinfer1::IRuntime*>(make(&logger_, NV_TENSORRT_VERSION)));
  if (!made) throw failure_of("TensorRT's runtime does not start");
  return made;
}

Owned<nvinfer1::IBuilder> Library::make_builder() {
  const auto make = find<MakeFunction>(runtime_, "libnvinfer", "createInferBuilder_INTERNAL");
  Owned<nvinfer1::IBuilder> made(static_cast<nvinfer1::IBuilder*>(make(&logger_, NV_TENSORRT_VERSION)));
  if (!made) throw failure_of("TensorRT's builder does not start");
  return made;
}

void* Library::make_onnx_parser(nvinfer1::INetworkDefinition& network, int version) {
  if (parser_ == nullptr) parser_ = open_library("nvonnxparser");
  const auto make = find<MakeParserFunction>(parser_, "libnvonnxparser", "createNvOnnxParser_INTERNAL");
  void* made = make(&network, &logger_, version);
  if (made == nullptr) throw failure_of("TensorRT's ONNX parser does not start");
  return made;
}

Failure Library::failure_of(std::string what, hr_error_kind kind) {
  const std::string errors = logger_.take_errors();
  if (mentions_out_of_memory(errors)) kind = HR_ERROR_OUT_OF_MEMORY;
  if (misses_a_plugin(errors))
    return {kind,
            fmt::format("{}: {}",
                        has_plugins_ ? "it needs a plug-in that is not TensorRT's own, which Headroom does "
                                       "not load"
                                     : "it needs TensorRT's plug-ins, and " + file_of("nvinfer_plugin") +
                                           " was not found",
                        errors)};
  return {kind, errors.empty() ? std::move(what) : fmt::format("{}: {}", what, errors)};
}

}  // namespace headroom::tensorrt
