// The inputs and outputs of a session: their signature, the tensors of the outputs, and the copies on a
// device.
#pragma once

#include <onnxruntime_c_api.h>
#include <cstdint>
#include <memory>
#include <vector>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"
#include "inference/plugin/cuda_device.h"
#include "types/tensor.h"

namespace headroom::onnxruntime {

ElementType element_type_of(ONNXTensorElementDataType type);
ONNXTensorElementDataType onnx_type_of(ElementType type);

// The custom metadata, with producer_name and graph_name. A sequence, map or optional has an unknown type.
// Throws Failure.
ModelDescription read_signature(const Runtime& runtime, const OrtSession& session);

// Binds a session's outputs so that Headroom adds no allocation to those of ONNX Runtime:
//
//   - After the first run, each output keeps the tensor that ONNX Runtime allocated for it. Later runs
//     write into the same tensors, because with inputs of the same shape most models keep their output
//     shapes.
//   - If an output's shape does change (results of NMS, for example), ONNX Runtime rejects the bound
//     tensor. Headroom then repeats the run. From then on, ONNX Runtime allocates the outputs in each run,
//     until inputs of another shape are bound. Reading such outputs costs one array and one handle per
//     output, the minimum that the C API allows.
//
// So the tensors lie in the session's arena, in the order of the first run, as in a program without
// Headroom. Two alternatives were measured and rejected:
//
//   - Memory that Headroom allocates for the outputs adds to the arena, which grows by powers of two anyway:
//     11 MiB more for the outputs of YOLOX at 1280 × 1280.
//   - Allocating the outputs before the first run shifts everything else in the arena, which alone made
//     models up to 2 % slower or faster.
//
// A live output pins its region of the arena, so trim() releases the outputs first. On a device, an output
// stays in device memory if the model computes it there; DeviceIo copies it to the host.
//
// All members throw Failure.
class BoundOutputs {
 public:
  // The references must outlive this object.
  BoundOutputs(const Runtime& runtime, OrtIoBinding& binding, const std::vector<TensorSpec>& specs);
  // Call it before the first prepare(). Numeric outputs with `produced_on_device` stay in the device's
  // memory.
  void keep_on_device(Owned<OrtMemoryInfo> device, const std::vector<bool>& produced_on_device);

  // Call it before each run. Does nothing once every output has its tensor.
  void prepare() {
    if (!bound_) bind_all();
    if (!runtime_allocated_.empty()) rebind_to_memory();
  }
  // Call it after each successful run.
  void run_succeeded() {
    fetched_.clear();
    if (learning_) keep_shapes();
  }
  // Call it after a failed run. If bound tensors were in use, their shapes may be the cause: stops using
  // them and returns true.
  bool stop_reusing_tensors();
  // Call it after inputs of other shapes were bound.
  void forget_shapes();
  // Releases all output values. The next prepare() binds the outputs again.
  void release();

  // The value after a run. It has no data if the output is not a tensor of plain numbers.
  hr_tensor view(std::size_t index);
  bool is_on_device(std::size_t index) const { return outputs_[index].on_device; }

 private:
  struct Output {
    const TensorSpec* spec;
    std::vector<int64_t> dims;
    std::size_t bytes = 0;
    Owned<OrtValue> value;  // the bound tensor; absent while ONNX Runtime allocates it in each run
    void* data = nullptr;   // address of the tensor's data
    bool on_device = false;
  };

  void bind_all();
  void bind(Output& output, Owned<OrtValue> value, std::vector<int64_t> dims);
  void bind_to_memory(const Output& output);
  void rebind_to_memory();
  void keep_shapes();
  void fetch();
  std::vector<int64_t> dims_of(const OrtValue& value) const;

  const Runtime& runtime_;
  const OrtApi& api_;
  OrtIoBinding& binding_;
  Owned<OrtMemoryInfo> cpu_, device_;
  std::vector<Output> outputs_;
  std::vector<std::size_t> runtime_allocated_;  // outputs that ONNX Runtime allocates in each run
  std::vector<Owned<OrtValue>> fetched_;        // all outputs of the last run; empty until the first view()
  bool bound_ = false;
  bool learning_ = false;  // the next run shows the output shapes
  bool varying_ = false;   // ONNX Runtime rejected a bound tensor once
};

// The inputs and outputs of a session on a CUDA device. One run has these steps, all in one stream with
// one wait at the end: copy the inputs from pinned memory to the device, run the model, copy the outputs
// to pinned memory. Inputs that the model reads on the CPU, and outputs that it writes there, are bound in
// host memory and not copied.
//
// All members throw Failure. The references must outlive this object.
class DeviceIo {
 public:
  DeviceIo(const Runtime& runtime, const plugin::CudaDevice& device, const OrtSession& session,
           OrtIoBinding& binding, const ModelDescription& signature, BoundOutputs& outputs);

  // Binds host memory, which each run reads. Returns false if the model reads this input on the CPU; the
  // caller must then bind it there.
  bool bind_input(std::size_t index, const hr_tensor& tensor);
  // From now on, another session's output is bound as this input; nothing is copied.
  void forget_input(std::size_t index) { inputs_[index].value.reset(); }
  void copy_inputs();
  // From now on, this output stays on the device if it is there.
  void keep_on_device(std::size_t index) { outputs_[index].stays = true; }
  void copy_outputs();
  // The output that the last copy_outputs() copied.
  hr_tensor output(std::size_t index);

 private:
  struct Input {
    std::vector<int64_t> dims;
    Owned<OrtValue> value;  // on the device
    cuda::Pointer memory = 0;
    std::unique_ptr<plugin::HostInput> host;
  };
  struct Output {
    hr_tensor tensor{};  // on the device, from the last run
    plugin::PinnedMemory host;
    bool stays = false;  // on the device
  };
  void make_tensor(Input& input, std::size_t index, const hr_tensor& tensor);
  void bind(const Input& input, std::size_t index);

  const Runtime& runtime_;
  const OrtApi& api_;
  const plugin::CudaDevice& device_;
  OrtIoBinding& binding_;
  const ModelDescription& signature_;
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
