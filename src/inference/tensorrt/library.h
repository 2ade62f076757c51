// TensorRT's libraries. They are opened at run time and never linked. So the plug-in needs only the public
// headers to build, and reports what is missing on a machine without TensorRT.
#pragma once

#include <NvInfer.h>
#include <NvInferRuntime.h>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "cuda/driver.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/plugin_failure.h"
#include "inference/tensorrt/engine_file.h"
#include "types/tensor.h"

// 1003 for 10.3.
#define HEADROOM_TENSORRT_VERSION (NV_TENSORRT_MAJOR * 100 + NV_TENSORRT_MINOR)
#if HEADROOM_TENSORRT_VERSION < 805
#error "The headers are of a TensorRT before 8.5, which has no enqueueV3"
#endif

namespace headroom::tensorrt {

using plugin::failed;
using plugin::Failure;
using plugin::unavailable;
using plugin::value_or_throw;

template <class T>
using Owned = std::unique_ptr<T>;  // since version 8, TensorRT's objects are freed with delete

// Collects TensorRT's errors for Headroom's error message. Warnings and errors also go to standard error
// (the run's log).
class Logger final : public nvinfer1::ILogger {
 public:
  void log(Severity severity, const nvinfer1::AsciiChar* message) noexcept override;
  // Returns the errors since the last call on one line, and clears them. Only the first and the last are
  // kept: the cause, and its final effect.
  std::string take_errors();

 private:
  std::mutex mutex_;
  std::string first_, last_;
};

class Library {
 public:
  static constexpr const char* kTitle = "TensorRT";
  static void prepare_device(const char* name, hr_device_facts& facts) {
    plugin::prepare_device(name, "cuda:N", facts);
  }

  // Opens libnvinfer of the headers' major version, from the folder HEADROOM_TENSORRT or from the system.
  // Registers the layers of libnvinfer_plugin if that library exists. Throws Failure
  // (HR_ERROR_UNAVAILABLE), which names what is missing.
  Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& version() const { return version_; }  // "10.16.1"
  Logger& logger() { return logger_; }
  Owned<nvinfer1::IRuntime> make_runtime() {
    return make<nvinfer1::IRuntime>("createInferRuntime_INTERNAL", "TensorRT's runtime does not start");
  }
  Owned<nvinfer1::IBuilder> make_builder() {
    return make<nvinfer1::IBuilder>("createInferBuilder_INTERNAL", "TensorRT's builder does not start");
  }
  // Calls createNvOnnxParser_INTERNAL() of libnvonnxparser, which is opened at the first call.
  void* make_onnx_parser(nvinfer1::INetworkDefinition& network, int version);

  // Creates the Failure of a TensorRT call: the errors that TensorRT logged, what helps, and `what`. "Could
  // not find any implementation for node" means refused memory only if the allocator refused a request, which
  // the caller checks.
  Failure failure_of(std::string what, hr_error_kind kind = HR_ERROR_FAILED);

 private:
  void* make_object(const char* function, const char* failed);
  template <class T>
  Owned<T> make(const char* function, const char* failed) {
    return Owned<T>(static_cast<T*>(make_object(function, failed)));
  }
  void* runtime_ = nullptr;  // libraries stay open: their threads may outlive an unload
  void* parser_ = nullptr;
  bool has_plugins_ = false;
  std::string version_;
  std::filesystem::path folder_;  // of libnvinfer
  Logger& logger_;                // TensorRT keeps the first logger for its own use, so it is never destroyed
};

// The type of one dimension: 64 bits since version 10, 32 before.
using Dim = std::remove_reference_t<decltype(nvinfer1::Dims{}.d[0])>;
// Returns `unknown` for types with less than a byte per element and for 8-bit floats.
ElementType element_type_of(nvinfer1::DataType type);
// "[1,3,640,640]"
std::string dims_text(const nvinfer1::Dims& dims);

EngineMachine machine_here(const cuda::Driver& driver, unsigned ordinal, const std::string& tensorrt_version);

// Throws Failure, with the reason and the fix, if the engine's record shows that the engine is
// incompatible or stale. Without a record, it accepts the engine, and TensorRT itself must check it.
void require_compatible_engine(const std::filesystem::path& engine, const EngineMachine& here);

}  // namespace headroom::tensorrt
