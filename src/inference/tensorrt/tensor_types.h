// Converts TensorRT's element types and dimensions to Headroom's.
#pragma once

#include <NvInferRuntime.h>

#include <string>

#include "types/tensor.h"

namespace headroom::tensorrt {

// Returns `unknown` for types with less than a byte per element and for 8-bit floats.
ElementType element_type_of(nvinfer1::DataType type);
// "[1,3,640,640]"
std::string dims_text(const nvinfer1::Dims& dims);

}  // namespace headroom::tensorrt
