// The inputs and outputs of a session on a CUDA device. A run is: the inputs are copied from pinned memory to
// tensors of the device, the model runs, the outputs are copied to pinned memory; all in one stream, with one
// wait at its end. What the model takes or makes on the CPU is bound there and not copied at all.
#pragma once

#include <onnxruntime_c_api.h>

#include <memory>
#include <vector>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/bound_outputs.h"
#include "inference/onnxruntime/runtime.h"
#include "inference/onnxruntime/signature.h"
#include "inference/plugin/cuda_device.h"

namespace headroom::onnxruntime {

// All members throw Failure. The references must outlive this object.
class DeviceIo {
 public:
  DeviceIo(const Runtime& runtime, const plugin::CudaDevice& device, const OrtSession& session,
           OrtIoBinding& binding, const Signature& signature, BoundOutputs& outputs);

  // Binds host memory that is read at each run. False: this input is the CPU's, to be bound like one.
  bool bind_input(std::size_t index, const hr_tensor& tensor);
  void copy_inputs();
  void copy_outputs();
  // As copied by the last copy_outputs().
  hr_tensor output(std::size_t index);

 private:
  struct Input {
    std::vector<int64_t> dims;
    Owned<OrtValue> value;  // on the device
    cuda::Pointer memory = 0;
    const void* host = nullptr;
    std::size_t bytes = 0;
    std::unique_ptr<plugin::PinnedInPlace> pinned;  // the host memory itself, or
    std::unique_ptr<plugin::PinnedMemory> staging;  // a copy of it, where it cannot be pinned
  };
  struct Output {
    hr_tensor tensor{};  // on the device, as the last run made it
    plugin::PinnedMemory host;
  };
  void make_tensor(Input& input, std::size_t index, const hr_tensor& tensor);
  void bind(const Input& input, std::size_t index);

  const Runtime& runtime_;
  const OrtApi& api_;
  const plugin::CudaDevice& device_;
  OrtIoBinding& binding_;
  const Signature& signature_;
  BoundOutputs& outputs_bound_;
  Owned<OrtAllocator> allocator_;
  std::vector<bool> taken_on_device_;  // by input
  // A library that does not say where inputs are taken: bound at each run, it moves them there itself.
  bool binds_at_each_run_ = false;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace headroom::onnxruntime
