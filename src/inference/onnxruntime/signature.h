// What a loaded ONNX model says of itself, in the form that the plug-in interface hands out.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>
#include <utility>
#include <vector>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"
#include "model/tensor.h"

namespace headroom::onnxruntime {

ElementType element_type_of(ONNXTensorElementDataType type);
ONNXTensorElementDataType onnx_type_of(ElementType type);

struct Signature {
  std::vector<TensorSpec> inputs, outputs;                    // type unknown: a sequence, map or optional
  std::vector<std::pair<std::string, std::string>> metadata;  // the custom ones, producer_name, graph_name
};

// Throws Failure.
Signature read_signature(const Runtime& runtime, const OrtSession& session);

// The signature as plain C arrays that point into it; it must not change or move.
class SignatureTables {
 public:
  explicit SignatureTables(const Signature& signature);
  void fill(hr_description& description) const;

 private:
  std::vector<std::vector<const char*>> dim_names_;
  std::vector<hr_tensor_spec> inputs_, outputs_;
  std::vector<const char*> keys_, values_;
};

}  // namespace headroom::onnxruntime
