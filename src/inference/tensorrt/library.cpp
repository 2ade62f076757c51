#include "inference/tensorrt/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "inference/tensorrt/precision.h"

namespace headroom::tensorrt {
namespace {

// How to fix a missing library.
constexpr const char* kHowToGetIt =
    "install TensorRT {0} (on a Jetson, it is part of JetPack), or set HEADROOM_TENSORRT to the folder of "
    "its libraries";

std::string last_dl_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "it cannot be loaded" : text;
}

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
  throw Failure{HR_ERROR_UNAVAILABLE,
                fmt::format("TensorRT's {} was not found ({}); {}", file_of(name), last_dl_error(),
                            fmt::format(fmt::runtime(kHowToGetIt), NV_TENSORRT_MAJOR))};
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
    throw Failure{HR_ERROR_UNAVAILABLE,
                  fmt::format("the opened {} is not TensorRT's library: it has no {}", library_name, name)};
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
  version_ = version_text(version_of());
  if (major_of(version_of()) != NV_TENSORRT_MAJOR)
    throw Failure{HR_ERROR_UNAVAILABLE,
                  fmt::format("this plug-in was built for TensorRT {}, but found {}; build Headroom with the "
                              "headers of that version (-DTENSORRT_INCLUDE_DIR=…), or install TensorRT {}",
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
  if (reports_missing_plugin(errors))
    return {
        kind,
        fmt::format("{}: {}",
                    has_plugins_
                        ? "it needs a plug-in that TensorRT does not include, which Headroom cannot load"
                        : "it needs TensorRT's plug-ins, but " + file_of("nvinfer_plugin") + " was not found",
                    errors)};
  return {kind, errors.empty() ? std::move(what) : fmt::format("{}: {}", what, errors)};
}

}  // namespace headroom::tensorrt
