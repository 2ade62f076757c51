// TensorRT's libraries. They are opened at run time and never linked. So the plug-in needs only the public
// headers to build, and reports what is missing on a machine without TensorRT.
#pragma once

#include <NvInfer.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "inference/tensorrt/failure.h"

namespace headroom::tensorrt {

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
  // Opens libnvinfer of the headers' major version, from the folder HEADROOM_TENSORRT or from the system.
  // Registers the layers of libnvinfer_plugin if that library exists. Throws Failure
  // (HR_ERROR_UNAVAILABLE), which names what is missing.
  Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& version() const { return version_; }  // "10.16.1"
  Logger& logger() { return logger_; }
  Owned<nvinfer1::IRuntime> make_runtime();
  Owned<nvinfer1::IBuilder> make_builder();
  // Calls createNvOnnxParser_INTERNAL() of libnvonnxparser, which is opened at the first call.
  void* make_onnx_parser(nvinfer1::INetworkDefinition& network, int version);

  // Creates the Failure of a TensorRT call: `what`, followed by the errors that TensorRT logged.
  Failure failure_of(std::string what, hr_error_kind kind = HR_ERROR_FAILED);

 private:
  void* runtime_ = nullptr;  // libraries stay open: their threads may outlive an unload
  void* parser_ = nullptr;
  bool has_plugins_ = false;
  std::string version_;
  Logger& logger_;  // TensorRT keeps the first logger for its own use, so it is never destroyed
};

}  // namespace headroom::tensorrt
