#include "inference/onnxruntime/device_io.h"

#include <cstring>

#include "inference/onnxruntime/cuda_provider.h"
#include "inference/onnxruntime/failure.h"

namespace headroom::onnxruntime {
namespace {

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

DeviceIo::DeviceIo(const Runtime& runtime, const plugin::CudaDevice& device, const OrtSession& session,
                   OrtIoBinding& binding, const Signature& signature, BoundOutputs& outputs)
    : runtime_(runtime),
      api_(runtime.api()),
      device_(device),
      binding_(binding),
      signature_(signature),
      outputs_bound_(outputs),
      allocator_(nullptr, api_.ReleaseAllocator),
      input_on_device_(signature.inputs.size(), true) {
  auto memory = cuda_memory(runtime, device.ordinal());
  OrtAllocator* made = nullptr;
  runtime_.check(api_.CreateAllocator(&session, memory.get(), &made));
  allocator_.reset(made);
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
    inputs_.push_back({{}, Owned<OrtValue>(nullptr, api_.ReleaseValue), 0, nullptr, 0, nullptr, nullptr});
  for (std::size_t i = 0; i < signature.outputs.size(); ++i)
    outputs_.push_back({{}, plugin::PinnedMemory(device)});
}

void DeviceIo::make_tensor(Input& input, std::size_t index, const hr_tensor& tensor) {
  OrtValue* made = nullptr;
  runtime_.check(api_.CreateTensorAsOrtValue(allocator_.get(), tensor.dims,
                                             static_cast<std::size_t>(tensor.rank),
                                             onnx_type_of(signature_.inputs[index].type), &made));
  input.value.reset(made);
  void* memory = nullptr;
  runtime_.check(api_.GetTensorMutableData(made, &memory));
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
  input.pinned.reset();
  input.pinned = std::make_unique<plugin::PinnedInPlace>(device_, tensor.data, tensor.bytes);
  if (!input.pinned->is_pinned() && tensor.bytes > 0) {
    input.staging = std::make_unique<plugin::PinnedMemory>(device_);
    input.staging->need(tensor.bytes);
  } else {
    input.staging.reset();
  }
  input.host = tensor.data;
  input.bytes = tensor.bytes;
  bind(input, index);
  return true;
}

void DeviceIo::copy_inputs() {
  for (Input& input : inputs_) {
    if (input.value == nullptr) continue;
    const void* from = input.host;
    if (input.staging) from = std::memcpy(input.staging->data(), input.host, input.bytes);
    device_.copy_in(input.memory, from, input.bytes);
  }
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
    const auto from = reinterpret_cast<cuda::Pointer>(output.tensor.data);
    output.tensor.data = output.host.need(output.tensor.bytes);
    device_.copy_out(output.tensor.data, from, output.tensor.bytes);
  }
}

hr_tensor DeviceIo::output(std::size_t index) { return outputs_[index].tensor; }

}  // namespace headroom::onnxruntime
