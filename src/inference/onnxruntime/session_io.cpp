#include "inference/onnxruntime/session_io.h"

#include <algorithm>
#include <array>

#include "inference/onnxruntime/model_loading.h"

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
    runtime_.check((inputs ? api_.SessionGetInputCount : api_.SessionGetOutputCount)(&session_, &count));
    std::vector<TensorSpec> specs;
    for (size_t i = 0; i < count; ++i) {
      char* name = nullptr;
      runtime_.check(
          (inputs ? api_.SessionGetInputName : api_.SessionGetOutputName)(&session_, i, allocator_, &name));
      std::string text = take(name);
      const auto type =
          runtime_.make(api_.ReleaseTypeInfo,
                        inputs ? api_.SessionGetInputTypeInfo : api_.SessionGetOutputTypeInfo, &session_, i);
      specs.push_back(tensor(std::move(text), *type));
    }
    return specs;
  }

  std::vector<std::pair<std::string, std::string>> metadata() const {
    const auto owned = runtime_.make(api_.ReleaseModelMetadata, api_.SessionGetModelMetadata, &session_);
    const OrtModelMetadata* const read = owned.get();
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

bool has_numbers(const TensorSpec& spec) { return size_of(spec.type) > 0; }

constexpr uint32_t kApiWithLocations = 23;  // SessionGetMemoryInfoForInputs and …ForOutputs

using GetLocations = OrtStatus*(ORT_API_CALL*)(const OrtSession*, const OrtMemoryInfo**, size_t);

// For each input or output: true if it lies in device memory. Pinned memory counts as the CPU's.
std::vector<bool> locations_on_device(const Runtime& runtime, const OrtSession& session, GetLocations get,
                                      std::size_t count) {
  const OrtApi* api = runtime.newer_api(kApiWithLocations);
  std::vector<const OrtMemoryInfo*> infos(count);
  if (count > 0) runtime.check(get(&session, infos.data(), count));
  std::vector<bool> on_device;
  for (const OrtMemoryInfo* info : infos) {
    OrtMemType type = OrtMemTypeDefault;
    OrtMemoryInfoDeviceType device = OrtMemoryInfoDeviceType_CPU;
    runtime.check(api->MemoryInfoGetMemType(info, &type));
    api->MemoryInfoGetDeviceType(info, &device);
    on_device.push_back(device == OrtMemoryInfoDeviceType_GPU && type == OrtMemTypeDefault);
  }
  return on_device;
}

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

ModelDescription read_signature(const Runtime& runtime, const OrtSession& session) {
  const Reader reader(runtime, session);
  return {reader.tensors(true), reader.tensors(false), reader.metadata()};
}

BoundOutputs::BoundOutputs(const Runtime& runtime, OrtIoBinding& binding,
                           const std::vector<TensorSpec>& specs)
    : runtime_(runtime),
      api_(runtime.api()),
      binding_(binding),
      cpu_(cpu_memory(runtime, OrtDeviceAllocator)),
      device_(nullptr, api_.ReleaseMemoryInfo) {
  for (const TensorSpec& spec : specs)
    outputs_.push_back({&spec, {}, 0, Owned<OrtValue>(nullptr, api_.ReleaseValue), nullptr, false});
}

void BoundOutputs::keep_on_device(Owned<OrtMemoryInfo> device, const std::vector<bool>& produced_on_device) {
  device_ = std::move(device);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    outputs_[i].on_device = produced_on_device[i] && has_numbers(*outputs_[i].spec);
}

void BoundOutputs::bind_all() {
  runtime_allocated_.clear();
  learning_ = false;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Output& output = outputs_[i];
    output.value.reset();
    // Also bound here, not only before the run: the order of the first binding is the order of the values.
    bind_to_memory(output);
    runtime_allocated_.push_back(i);
    learning_ = learning_ || (!varying_ && has_numbers(*output.spec));
  }
  bound_ = true;
}

void BoundOutputs::bind_to_memory(const Output& output) {
  const OrtMemoryInfo* memory = output.on_device ? device_.get() : cpu_.get();
  runtime_.check(api_.BindOutputToDevice(&binding_, output.spec->name.c_str(), memory));
}

void BoundOutputs::bind(Output& output, Owned<OrtValue> value, std::vector<int64_t> dims) {
  runtime_.check(api_.GetTensorMutableData(value.get(), &output.data));
  runtime_.check(api_.BindOutput(&binding_, output.spec->name.c_str(), value.get()));
  output.bytes = static_cast<std::size_t>(element_count(dims)) * size_of(output.spec->type);
  output.dims = std::move(dims);
  output.value = std::move(value);
}

// Without a new binding, ONNX Runtime would write into the last run's values, whose shapes may no longer
// fit.
void BoundOutputs::rebind_to_memory() {
  fetched_.clear();
  for (const std::size_t i : runtime_allocated_) bind_to_memory(outputs_[i]);
}

void BoundOutputs::keep_shapes() {
  fetch();
  std::vector<std::size_t> still_allocated;
  for (const std::size_t i : runtime_allocated_) {
    Output& output = outputs_[i];
    if (!has_numbers(*output.spec)) {
      still_allocated.push_back(i);
      continue;
    }
    std::vector<int64_t> dims = dims_of(*fetched_[i]);
    bind(output, std::move(fetched_[i]), std::move(dims));
  }
  runtime_allocated_ = std::move(still_allocated);
  learning_ = false;
  fetched_.clear();
}

bool BoundOutputs::stop_reusing_tensors() {
  if (std::ranges::all_of(outputs_, [](const Output& output) { return output.value == nullptr; }))
    return false;
  varying_ = true;
  bound_ = false;
  return true;
}

void BoundOutputs::forget_shapes() {
  varying_ = false;
  bound_ = false;
  fetched_.clear();
}

void BoundOutputs::release() {
  fetched_.clear();
  for (Output& output : outputs_) {
    output.value.reset();
    bind_to_memory(output);  // the binding holds a second reference
  }
  bound_ = false;
}

void BoundOutputs::fetch() {
  OrtAllocator* allocator = nullptr;
  runtime_.check(api_.GetAllocatorWithDefaultOptions(&allocator));
  OrtValue** values = nullptr;
  size_t count = 0;
  runtime_.check(api_.GetBoundOutputValues(&binding_, allocator, &values, &count));
  for (size_t i = 0; i < count; ++i) fetched_.emplace_back(values[i], api_.ReleaseValue);
  if (values != nullptr) allocator->Free(allocator, values);
}

std::vector<int64_t> BoundOutputs::dims_of(const OrtValue& value) const {
  const auto info = runtime_.make(api_.ReleaseTensorTypeAndShapeInfo, api_.GetTensorTypeAndShape, &value);
  size_t rank = 0;
  runtime_.check(api_.GetDimensionsCount(info.get(), &rank));
  std::vector<int64_t> dims(rank);
  runtime_.check(api_.GetDimensions(info.get(), dims.data(), rank));
  return dims;
}

hr_tensor BoundOutputs::view(std::size_t index) {
  Output& output = outputs_[index];
  const auto type = static_cast<int32_t>(output.spec->type);
  if (!has_numbers(*output.spec)) return {nullptr, 0, type, 0, nullptr};
  if (!output.value) {
    if (fetched_.empty()) fetch();
    void* data = nullptr;
    runtime_.check(api_.GetTensorMutableData(fetched_[index].get(), &data));
    output.dims = dims_of(*fetched_[index]);
    return {data, static_cast<std::size_t>(element_count(output.dims)) * size_of(output.spec->type), type,
            static_cast<int32_t>(output.dims.size()), output.dims.data()};
  }
  return {output.data, output.bytes, type, static_cast<int32_t>(output.dims.size()), output.dims.data()};
}

DeviceIo::DeviceIo(const Runtime& runtime, const plugin::CudaDevice& device, const OrtSession& session,
                   OrtIoBinding& binding, const ModelDescription& signature, BoundOutputs& outputs)
    : runtime_(runtime),
      api_(runtime.api()),
      device_(device),
      binding_(binding),
      signature_(signature),
      outputs_bound_(outputs),
      allocator_(nullptr, api_.ReleaseAllocator),
      input_on_device_(signature.inputs.size(), true) {
  auto memory = cuda_memory(runtime, device.ordinal());
  allocator_ = runtime.make(api_.ReleaseAllocator, api_.CreateAllocator, &session, memory.get());
  std::vector<bool> made_on_device(signature.outputs.size(), true);
  if (const OrtApi* api = runtime.newer_api(kApiWithLocations)) {
    input_on_device_ =
        locations_on_device(runtime, session, api->SessionGetMemoryInfoForInputs, signature.inputs.size());
    made_on_device =
        locations_on_device(runtime, session, api->SessionGetMemoryInfoForOutputs, signature.outputs.size());
  } else {
    rebinds_each_run_ = true;
  }
  outputs_bound_.keep_on_device(std::move(memory), made_on_device);
  for (std::size_t i = 0; i < signature.inputs.size(); ++i)
    inputs_.push_back(
        {{}, Owned<OrtValue>(nullptr, api_.ReleaseValue), 0, std::make_unique<plugin::HostInput>(device)});
  for (std::size_t i = 0; i < signature.outputs.size(); ++i)
    outputs_.push_back({{}, plugin::PinnedMemory(device)});
}

void DeviceIo::make_tensor(Input& input, std::size_t index, const hr_tensor& tensor) {
  input.value =
      runtime_.make(api_.ReleaseValue, api_.CreateTensorAsOrtValue, allocator_.get(), tensor.dims,
                    static_cast<std::size_t>(tensor.rank), onnx_type_of(signature_.inputs[index].type));
  void* memory = nullptr;
  runtime_.check(api_.GetTensorMutableData(input.value.get(), &memory));
  input.memory = reinterpret_cast<cuda::Pointer>(memory);
  input.dims.assign(tensor.dims, tensor.dims + tensor.rank);
}

void DeviceIo::bind(const Input& input, std::size_t index) {
  runtime_.check(api_.BindInput(&binding_, signature_.inputs[index].name.c_str(), input.value.get()));
}

bool DeviceIo::bind_input(std::size_t index, const hr_tensor& tensor) {
  if (!input_on_device_[index]) return false;
  Input& input = inputs_[index];
  const std::vector<int64_t> dims(tensor.dims, tensor.dims + tensor.rank);
  // Keep the tensor while the shape stays the same, because a captured graph uses its address.
  if (!input.value || input.dims != dims) make_tensor(input, index, tensor);
  input.host->bind(tensor.data, tensor.bytes);
  bind(input, index);
  return true;
}

void DeviceIo::copy_inputs() {
  for (const Input& input : inputs_)
    if (input.value) input.host->copy_to(input.memory);
  if (!rebinds_each_run_) return;
  device_.wait();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].value) bind(inputs_[i], i);
}

void DeviceIo::copy_outputs() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Output& output = outputs_[i];
    output.tensor = outputs_bound_.view(i);
    if (!outputs_bound_.is_on_device(i) || output.tensor.data == nullptr) continue;
    if (output.stays) {
      output.tensor.data = nullptr;
      output.tensor.bytes = 0;
      continue;
    }
    const auto from = reinterpret_cast<cuda::Pointer>(output.tensor.data);
    output.tensor.data = output.host.need(output.tensor.bytes);
    device_.copy_out(output.tensor.data, from, output.tensor.bytes);
  }
}

hr_tensor DeviceIo::output(std::size_t index) { return outputs_[index].tensor; }

}  // namespace headroom::onnxruntime
