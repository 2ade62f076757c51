#include "inference/tensorrt/tensor_types.h"

#include <algorithm>

namespace headroom::tensorrt {

ElementType element_type_of(nvinfer1::DataType type) {
  switch (type) {
    case nvinfer1::DataType::kFLOAT:
      return ElementType::float32;
    case nvinfer1::DataType::kHALF:
      return ElementType::float16;
    case nvinfer1::DataType::kBF16:
      return ElementType::bfloat16;
    case nvinfer1::DataType::kINT8:
      return ElementType::int8;
    case nvinfer1::DataType::kUINT8:
      return ElementType::uint8;
    case nvinfer1::DataType::kINT32:
      return ElementType::int32;
    case nvinfer1::DataType::kINT64:
      return ElementType::int64;
    case nvinfer1::DataType::kBOOL:
      return ElementType::boolean;
    default:
      return ElementType::unknown;
  }
}

std::string dims_text(const nvinfer1::Dims& dims) {
  std::string text = "[";
  for (int32_t i = 0; i < dims.nbDims; ++i) text += (i > 0 ? "," : "") + std::to_string(dims.d[i]);
  return text + "]";
}

}  // namespace headroom::tensorrt
