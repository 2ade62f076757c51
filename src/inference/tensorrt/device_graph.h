// Records the work of a stream once as a CUDA graph. Later, one call submits all of it again.
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
  // Records the work that `work` submits to the device's stream, without running it. Throws Failure;
  // `work` may also throw. In both cases the stream's capture is ended.
  void capture(const std::function<void()>& work);
  // Runs the graph in the device's stream.
  void launch() const;
  void forget();

 private:
  const plugin::CudaDevice& device_;
  cuda::Opaque exec_ = nullptr;
};

}  // namespace headroom::tensorrt
