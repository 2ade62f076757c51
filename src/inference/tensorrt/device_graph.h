// Work that was recorded from a stream once and is handed to the device again with one call.
#pragma once

#include <functional>
#include <string>

#include "inference/plugin/cuda_device.h"

namespace headroom::tensorrt {

class DeviceGraph {
 public:
  explicit DeviceGraph(const plugin::CudaDevice& device) : device_(device) {}
  ~DeviceGraph() { forget(); }
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  bool is_captured() const { return exec_ != nullptr; }
  // Records what `work` puts into the device's stream; nothing of it runs. Throws Failure; so may `work`, and
  // the stream is then out of its capture again.
  void capture(const std::function<void()>& work);
  // Runs it, in the stream.
  void launch() const;
  void forget();

 private:
  const plugin::CudaDevice& device_;
  cuda::Handle exec_ = nullptr;
};

}  // namespace headroom::tensorrt
