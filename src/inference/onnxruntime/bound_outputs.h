// A session's outputs, bound so that a run allocates nothing beyond what ONNX Runtime itself does, and so
// that the arena is empty between runs (a live output would pin the whole region it lies in, and trimming
// could not give that back):
//
//   * an output whose shape the model states is bound to own memory before the first run;
//   * any other output is taken from ONNX Runtime after the first run; from then on own memory of that shape
//   is
//     bound, because with inputs of the same shape most models keep theirs;
//   * where outputs really change from run to run (what is left after NMS, say), ONNX Runtime refuses the
//   bound
//     memory. The run is then repeated, and all later ones are made, with memory of its own choice. Fetching
//     such outputs costs an array and a handle an output: the least that the C API permits.
#pragma once

#include <onnxruntime_c_api.h>

#include <cstdint>
#include <cstdlib>
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

  // Before each run. Nothing to do once every output has own memory.
  void prepare() {
    if (!bound_) bind_all();
    if (!in_runtime_.empty()) rebind_to_runtime();
  }
  // After each run that succeeded.
  void run_succeeded() {
    fetched_.clear();
    if (learning_) keep_shapes();
  }
  // After a run that failed: true if the shapes of own memory may be the reason; it is then no longer used.
  bool give_up_own_memory();
  // Inputs of other shapes were bound.
  void forget_shapes();
  // Lets go of values in ONNX Runtime's memory.
  void release_runtime_memory();

  // The value after a run; without data if it is not plain numbers.
  hr_tensor view(std::size_t index);

 private:
  struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Output {
    const TensorSpec* spec;
    std::vector<int64_t> dims;
    std::size_t bytes = 0;
    std::unique_ptr<void, FreeMemory> memory;  // own; absent while the value lies in ONNX Runtime's memory
  };

  void bind_all();
  void bind_to_own_memory(Output& output, std::vector<int64_t> dims);
  void rebind_to_runtime();
  void keep_shapes();
  void fetch();
  std::vector<int64_t> dims_of(const OrtValue& value) const;

  const Runtime& runtime_;
  const OrtApi& api_;
  OrtIoBinding& binding_;
  Owned<OrtMemoryInfo> cpu_;
  std::vector<Output> outputs_;
  std::vector<std::size_t> in_runtime_;   // outputs that ONNX Runtime allocates in each run
  std::vector<Owned<OrtValue>> fetched_;  // of the last run, all outputs in order; empty until asked for
  bool bound_ = false;
  bool learning_ = false;  // the next run shows the shapes that the model does not state
  bool varying_ = false;   // own memory was refused once
};

}  // namespace headroom::onnxruntime
