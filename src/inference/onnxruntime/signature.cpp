#include "inference/onnxruntime/signature.h"

#include <array>

namespace headroom::onnxruntime {
namespace {

struct TypePair {
  ONNXTensorElementDataType onnx;
  ElementType ours;
};
constexpr std::array<TypePair, 14> kTypes{{{ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ElementType::float32},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, ElementType::float16},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, ElementType::bfloat16},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, ElementType::float64},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, ElementType::int8},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, ElementType::uint8},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, ElementType::int16},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, ElementType::uint16},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, ElementType::int32},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, ElementType::uint32},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, ElementType::int64},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, ElementType::uint64},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, ElementType::boolean},
                                           {ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, ElementType::string}}};

// Reads a signature. Strings come from ONNX Runtime's default allocator and are freed with it.
class Reader {
 public:
  Reader(const Runtime& runtime, const OrtSession& session)
      : runtime_(runtime), api_(runtime.api()), session_(session) {
    runtime_.check(api_.GetAllocatorWithDefaultOptions(&allocator_));
  }

  std::vector<TensorSpec> tensors(bool inputs) const {
    size_t count = 0;
    runtime_.check(inputs ? api_.SessionGetInputCount(&session_, &count)
                          : api_.SessionGetOutputCount(&session_, &count));
    std::vector<TensorSpec> specs;
    for (size_t i = 0; i < count; ++i) {
      char* name = nullptr;
      runtime_.check(inputs ? api_.SessionGetInputName(&session_, i, allocator_, &name)
                            : api_.SessionGetOutputName(&session_, i, allocator_, &name));
      OrtTypeInfo* type = nullptr;
      std::string text = take(name);
      runtime_.check(inputs ? api_.SessionGetInputTypeInfo(&session_, i, &type)
                            : api_.SessionGetOutputTypeInfo(&session_, i, &type));
      const Owned<OrtTypeInfo> owned(type, api_.ReleaseTypeInfo);
      specs.push_back(tensor(std::move(text), *type));
    }
    return specs;
  }

  std::vector<std::pair<std::string, std::string>> metadata() const {
    OrtModelMetadata* read = nullptr;
    runtime_.check(api_.SessionGetModelMetadata(&session_, &read));
    const Owned<OrtModelMetadata> owned(read, api_.ReleaseModelMetadata);
    std::vector<std::pair<std::string, std::string>> entries;
    char** keys = nullptr;
    int64_t count = 0;
    runtime_.check(api_.ModelMetadataGetCustomMetadataMapKeys(read, allocator_, &keys, &count));
    for (int64_t i = 0; i < count; ++i) {
      std::string key = take(keys[i]);
      char* value = nullptr;
      runtime_.check(api_.ModelMetadataLookupCustomMetadataMap(read, allocator_, key.c_str(), &value));
      entries.emplace_back(std::move(key), take(value));
    }
    if (keys != nullptr) allocator_->Free(allocator_, keys);
    char* text = nullptr;
    runtime_.check(api_.ModelMetadataGetProducerName(read, allocator_, &text));
    entries.emplace_back("producer_name", take(text));
    runtime_.check(api_.ModelMetadataGetGraphName(read, allocator_, &text));
    entries.emplace_back("graph_name", take(text));
    return entries;
  }

 private:
  std::string take(char* text) const {
    if (text == nullptr) return {};
    std::string copy = text;
    allocator_->Free(allocator_, text);
    return copy;
  }

  TensorSpec tensor(std::string name, const OrtTypeInfo& type) const {
    TensorSpec spec;
    spec.name = std::move(name);
    const OrtTensorTypeAndShapeInfo* info = nullptr;  // belongs to `type`
    runtime_.check(api_.CastTypeInfoToTensorInfo(&type, &info));
    if (info == nullptr) return spec;
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    runtime_.check(api_.GetTensorElementType(info, &element));
    spec.type = element_type_of(element);
    size_t rank = 0;
    runtime_.check(api_.GetDimensionsCount(info, &rank));
    spec.dims.resize(rank);
    std::vector<const char*> names(rank);
    runtime_.check(api_.GetDimensions(info, spec.dims.data(), rank));
    runtime_.check(api_.GetSymbolicDimensions(info, names.data(), rank));
    for (const char* dim_name : names) spec.dim_names.emplace_back(dim_name == nullptr ? "" : dim_name);
    for (int64_t& dim : spec.dims)
      if (dim < 0) dim = -1;
    return spec;
  }

  const Runtime& runtime_;
  const OrtApi& api_;
  const OrtSession& session_;
  OrtAllocator* allocator_ = nullptr;
};

}  // namespace

ElementType element_type_of(ONNXTensorElementDataType type) {
  for (const TypePair& pair : kTypes)
    if (pair.onnx == type) return pair.ours;
  return ElementType::unknown;
}

ONNXTensorElementDataType onnx_type_of(ElementType type) {
  for (const TypePair& pair : kTypes)
    if (pair.ours == type) return pair.onnx;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

Signature read_signature(const Runtime& runtime, const OrtSession& session) {
  const Reader reader(runtime, session);
  return {reader.tensors(true), reader.tensors(false), reader.metadata()};
}

plugin::SignatureTables tables_of(const Signature& signature) {
  plugin::SignatureTables tables;
  for (const TensorSpec& spec : signature.inputs) tables.add_input(spec);
  for (const TensorSpec& spec : signature.outputs) tables.add_output(spec);
  for (const auto& [key, value] : signature.metadata) tables.add_metadata(key, value);
  return tables;
}

}  // namespace headroom::onnxruntime
