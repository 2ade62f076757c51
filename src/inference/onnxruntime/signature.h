// Reads the signature of a loaded ONNX model: inputs, outputs and metadata.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>
#include <utility>
#include <vector>

#include "inference/onnxruntime/runtime.h"
#include "inference/plugin/signature_tables.h"
#include "types/tensor.h"

namespace headroom::onnxruntime {

ElementType element_type_of(ONNXTensorElementDataType type);
ONNXTensorElementDataType onnx_type_of(ElementType type);

struct Signature {
  std::vector<TensorSpec> inputs, outputs;  // type unknown: a sequence, map or optional
  std::vector<std::pair<std::string, std::string>>
      metadata;  // the custom entries, producer_name and graph_name
};

// Throws Failure.
Signature read_signature(const Runtime& runtime, const OrtSession& session);

// The tables point into the signature, which must not change or move.
plugin::SignatureTables tables_of(const Signature& signature);

}  // namespace headroom::onnxruntime
