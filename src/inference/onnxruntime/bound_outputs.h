// A session's outputs, bound so that a run allocates nothing beyond what ONNX Runtime itself does:
//
//   * an output keeps the tensor that ONNX Runtime made for it in the first run, because with inputs of the
//     same shape most models keep their shapes;
//   * where outputs really change from run to run (what is left after NMS, say), ONNX Runtime refuses the
//     bound tensor. The run is then repeated, and all later ones are made, with memory of its own choice.
//     Fetching such outputs costs an array and a handle an output: the least that the C API permits.
//
// So the tensors lie where a plain program's would: in the session's arena, in the order in which the first
// run asked for them. Outputs in memory of ours would come on top of an arena that grows by powers of two all
// the same (11 MiB more for the outputs of YOLOX at 1280 × 1280), and outputs that are made before the first
// run move everything else in the arena, which alone made models up to 2 % slower or faster. A live output
// pins the arena's region, so trimming lets them go first.
//
// On a device the tensors lie in its memory where the model makes them there, and fetching them to the host
// is the session's (device_io.h).
#pragma once

#include <onnxruntime_c_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"
#include "model/tensor.h"

namespace headroom::onnxruntime {

// All members throw Failure.
class BoundOutputs {
 public:
  // The references must outlive this object.
  BoundOutputs(const Runtime& runtime, OrtIoBinding& binding, const std::vector<TensorSpec>& specs);
  // Before the first prepare(): outputs of numbers for which `is_made_there` is true stay in the device's
  // memory.
  void keep_on_device(Owned<OrtMemoryInfo> device, const std::vector<bool>& is_made_there);

  // Before each run. Nothing to do once every output has its tensor.
  void prepare() {
    if (!bound_) bind_all();
    if (!in_runtime_.empty()) rebind_to_runtime();
  }
  // After each run that succeeded.
  void run_succeeded() {
    fetched_.clear();
    if (learning_) keep_shapes();
  }
  // After a run that failed: true if the shapes of the bound tensors may be the reason; they are then no
  // longer used.
  bool give_up_own_memory();
  // Inputs of other shapes were bound.
  void forget_shapes();
  // Lets go of all values; the next prepare() binds anew.
  void release();

  // The value after a run; without data if it is not plain numbers.
  hr_tensor view(std::size_t index);
  bool is_on_device(std::size_t index) const { return outputs_[index].on_device; }
  std::size_t count() const { return outputs_.size(); }

 private:
  struct Output {
    const TensorSpec* spec;
    std::vector<int64_t> dims;
    std::size_t bytes = 0;
    Owned<OrtValue> value;  // the bound tensor; absent while ONNX Runtime makes one in each run
    void* data = nullptr;   // of it
    bool on_device = false;
  };

  void bind_all();
  void bind(Output& output, Owned<OrtValue> value, std::vector<int64_t> dims);
  void bind_to_runtime(const Output& output);
  void rebind_to_runtime();
  void keep_shapes();
  void fetch();
  std::vector<int64_t> dims_of(const OrtValue& value) const;

  const Runtime& runtime_;
  const OrtApi& api_;
  OrtIoBinding& binding_;
  Owned<OrtMemoryInfo> cpu_, device_;
  std::vector<Output> outputs_;
  std::vector<std::size_t> in_runtime_;   // outputs that ONNX Runtime allocates in each run
  std::vector<Owned<OrtValue>> fetched_;  // of the last run, all outputs in order; empty until asked for
  bool bound_ = false;
  bool learning_ = false;  // the next run shows the shapes
  bool varying_ = false;   // a bound tensor was refused once
};

}  // namespace headroom::onnxruntime
