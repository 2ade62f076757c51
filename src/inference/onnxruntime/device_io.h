// The inputs and outputs of a session on a CUDA device. One run has these steps, all in one stream with
// one wait at the end: copy the inputs from pinned memory to the device, run the model, copy the outputs
// to pinned memory. Inputs that the model reads on the CPU, and outputs that it writes there, are bound in
// host memory and not copied.
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

  // Binds host memory, which each run reads. Returns false if the model reads this input on the CPU; the
  // caller must then bind it there.
  bool bind_input(std::size_t index, const hr_tensor& tensor);
  void copy_inputs();
  void copy_outputs();
  // The output that the last copy_outputs() copied.
  hr_tensor output(std::size_t index);

 private:
  struct Input {
    std::vector<int64_t> dims;
    Owned<OrtValue> value;  // on the device
    cuda::Pointer memory = 0;
    const void* host = nullptr;
    std::size_t bytes = 0;
    std::unique_ptr<plugin::PinnedInPlace> pinned;  // pins the host memory itself
    std::unique_ptr<plugin::PinnedMemory> staging;  // pinned copy, if the host memory cannot be pinned
  };
  struct Output {
    hr_tensor tensor{};  // on the device, from the last run
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
  std::vector<bool> input_on_device_;  // for each input: whether the model reads it on the device
  // True for old libraries, which do not report where inputs are read. Inputs are then bound before each
  // run, and ONNX Runtime moves them if necessary.
  bool rebinds_each_run_ = false;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace headroom::onnxruntime
