// A loaded ONNX model with its bound inputs and outputs.
#pragma once

#include <onnxruntime_c_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/bound_outputs.h"
#include "inference/onnxruntime/device_io.h"
#include "inference/onnxruntime/runtime.h"
#include "inference/onnxruntime/signature.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/signature_tables.h"

// The opaque type of the plug-in interface. All members throw headroom::plugin::Failure.
struct hr_session {
 public:
  hr_session(std::shared_ptr<headroom::onnxruntime::Runtime> runtime, const char* path,
             const hr_settings& settings);
  // Creates another session of the same loaded model; ONNX Runtime can run it on several threads at once.
  // Weights (including packed ones), arena and threads are shared. Inputs and outputs are separate. CPU
  // only. `other` may be running.
  explicit hr_session(const hr_session& other);
  hr_session& operator=(const hr_session&) = delete;

  void describe(hr_description& description) const { tables_.fill(description); }
  void bind_input(int32_t index, const hr_tensor& tensor);
  void run();
  // Call it after a successful run.
  hr_tensor output(int32_t index);
  hr_memory_stats memory_stats() const;
  // Returns the arena's unused regions to the C library, and that library's free memory to the system.
  //
  // ONNX Runtime shrinks an arena only at the end of a run that requests it. So the model runs once more
  // on the bound inputs, if it has run before. OrtAllocator::Shrink exists since 1.25, but up to 1.30 it
  // does nothing for a session's CPU allocator.
  //
  // An arena that grows by powers of two keeps its first region. With a captured graph, trim() does nothing,
  // because the graph holds addresses in the device's arena.
  void trim();

  // Unknown (-1) for a session on the CPU.
  hr_placement placement() const;
  std::int64_t device_time_ns() const { return device_ ? device_->last_run_ns() : -1; }

 private:
  template <class T>
  using Owned = headroom::onnxruntime::Owned<T>;
  struct Input {
    std::vector<int64_t> dims;  // as bound
    bool bound = false;
  };

  void check_input(const headroom::TensorSpec& spec, const hr_tensor& tensor) const;
  void bind_on_cpu(const headroom::TensorSpec& spec, const hr_tensor& tensor);
  void recover(OrtStatus* status);
  void run_on_device();
  void shrink_arena();
  void require_exact_arena() const;

  const std::shared_ptr<headroom::onnxruntime::Runtime> runtime_;
  const OrtApi& api_;
  const bool has_arena_, has_device_graph_;
  const std::unique_ptr<headroom::plugin::CudaDevice> device_;  // absent: the CPU
  const std::shared_ptr<OrtSession> session_;
  const Owned<OrtAllocator> allocator_;  // this session's allocator
  const Owned<OrtIoBinding> binding_;
  const Owned<OrtRunOptions> run_options_;
  const headroom::onnxruntime::Signature signature_;
  const headroom::plugin::SignatureTables tables_;
  std::vector<Input> inputs_;
  std::size_t unbound_inputs_;
  headroom::onnxruntime::BoundOutputs outputs_;
  const std::unique_ptr<headroom::onnxruntime::DeviceIo> device_io_;  // only with a device
  bool has_run_ = false;
  bool has_outputs_ = false;  // the last run's outputs are valid; trim() releases them
};
