// A loaded engine with its bound inputs and outputs. One run has these steps, in one stream with one wait
// at the end: copy the inputs from pinned memory to the device, run the engine's kernels (or their
// captured graph), copy the outputs to pinned memory.
#pragma once

#include <NvInfer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "inference/backend_plugin.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/signature_tables.h"
#include "inference/tensorrt/device_graph.h"
#include "inference/tensorrt/gpu_allocator.h"
#include "inference/tensorrt/library.h"
#include "inference/tensorrt/shared_scratch.h"
#include "types/tensor.h"

namespace headroom::tensorrt {

// One input or output, with its device memory and its pinned memory.
struct BoundTensor {
  TensorSpec spec;       // from the engine; -1: dynamic
  bool on_host = false;  // TensorRT reads or writes it in host memory (shape values)
  nvinfer1::Dims dims{};
  std::vector<std::int64_t> shape;  // in the last run
  std::uint64_t device = 0;
  std::size_t device_bytes = 0, bytes = 0;
  std::unique_ptr<plugin::PinnedMemory> staging;
  // Only for inputs:
  const void* host = nullptr;
  std::unique_ptr<plugin::PinnedInPlace> pinned;
  bool is_bound = false;
};

// Receives the shape of an output whose size depends on the data (results of NMS, for example). Its memory
// has the largest possible size.
class ShapeReceiver final : public nvinfer1::IOutputAllocator {
 public:
  explicit ShapeReceiver(BoundTensor& tensor) : tensor_(tensor) {}
  void* reallocateOutputAsync(char const* name, void* memory, uint64_t size, uint64_t alignment,
                              cudaStream_t stream) override;
  void notifyShape(char const* name, nvinfer1::Dims const& dims) noexcept override;

 private:
  BoundTensor& tensor_;
};

}  // namespace headroom::tensorrt

// The opaque type of the plug-in interface. All members throw headroom::plugin::Failure.
struct hr_session {
 public:
  hr_session(std::shared_ptr<headroom::tensorrt::Library> library, const std::string& path,
             const hr_settings& settings);
  ~hr_session();
  hr_session(const hr_session&) = delete;
  hr_session& operator=(const hr_session&) = delete;

  void describe(hr_description& description) const { tables_.fill(description); }
  void bind_input(int32_t index, const hr_tensor& tensor);
  void run();
  hr_tensor output(int32_t index);
  hr_memory_stats memory_stats() const;
  hr_placement placement() const;
  std::int64_t device_time_ns() const { return device_.last_run_ns(); }

 private:
  void deserialize(const std::string& path);
  void read_signature();
  void make_context();
  void bind_outputs();
  void reserve(headroom::tensorrt::BoundTensor& tensor, std::size_t bytes);
  void take_scratch();
  void enqueue();
  void compute();
  void copy_inputs();
  void copy_outputs();
  headroom::tensorrt::Failure failure_of(std::string what);

  const std::shared_ptr<headroom::tensorrt::Library> library_;
  headroom::plugin::CudaDevice device_;
  headroom::tensorrt::GpuAllocator allocator_;
  const std::shared_ptr<headroom::tensorrt::SharedScratch> scratch_;
  headroom::tensorrt::Owned<nvinfer1::IRuntime> runtime_;
  headroom::tensorrt::Owned<nvinfer1::ICudaEngine> engine_;
  std::vector<headroom::tensorrt::BoundTensor> inputs_, outputs_;
  std::vector<std::unique_ptr<headroom::tensorrt::ShapeReceiver>> receivers_;
  headroom::tensorrt::Owned<nvinfer1::IExecutionContext> context_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  headroom::plugin::SignatureTables tables_;
  headroom::tensorrt::DeviceGraph graph_;
  const bool wants_graph_;
  std::uint64_t scratch_bytes_ = 0, scratch_generation_ = 0;
  bool outputs_bound_ = false, has_run_ = false;
};
