// TensorRT's libraries: found and opened at run time, never linked, so that the plug-in is built from the
// public headers alone and says what is missing where TensorRT is absent.
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
using Owned = std::unique_ptr<T>;  // TensorRT's objects are deleted since version 8

// Keeps TensorRT's errors for the sentence that is made of them; warnings go to standard error (the run's
// log).
class Logger final : public nvinfer1::ILogger {
 public:
  void log(Severity severity, const nvinfer1::AsciiChar* message) noexcept override;
  // The errors since the last call, on one line: the first and the last, which is what all others follow from
  // and what they came to. Empty if there were none.
  std::string take_errors();

 private:
  std::mutex mutex_;
  std::string first_, last_;
};

class Library {
 public:
  // Opens libnvinfer of the headers' major version: in the folder HEADROOM_TENSORRT, else the system's; and
  // registers the layers of libnvinfer_plugin, where that is.
  // Throws Failure of HR_ERROR_UNAVAILABLE, which names what is missing.
  Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& version() const { return version_; }  // "10.16.1"
  Logger& logger() { return logger_; }
  Owned<nvinfer1::IRuntime> make_runtime();
  Owned<nvinfer1::IBuilder> make_builder();
  // createNvOnnxParser_INTERNAL() of libnvonnxparser, opened at the first need; `network` and the result are
  // as there.
  void* make_onnx_parser(nvinfer1::INetworkDefinition& network, int version);

  // The failure of a call of TensorRT: `what` with the errors that it logged.
  Failure failure_of(std::string what, hr_error_kind kind = HR_ERROR_FAILED);

 private:
  void* runtime_ = nullptr;  // libraries stay open: their threads may outlive an unload
  void* parser_ = nullptr;
  bool has_plugins_ = false;
  std::string version_;
  Logger& logger_;  // TensorRT keeps the first one that it is given for its own use: it is never destroyed
};

}  // namespace headroom::tensorrt
