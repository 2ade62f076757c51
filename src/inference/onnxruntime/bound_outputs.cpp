#include "inference/onnxruntime/bound_outputs.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "inference/onnxruntime/failure.h"
#include "inference/onnxruntime/signature.h"

namespace headroom::onnxruntime {
namespace {

bool has_numbers(const TensorSpec& spec) { return size_of(spec.type) > 0; }

}  // namespace

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
  const auto count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  output.bytes = static_cast<std::size_t>(count) * size_of(output.spec->type);
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
  const bool used =
      std::any_of(outputs_.begin(), outputs_.end(), [](const Output& o) { return o.value != nullptr; });
  if (!used) return false;
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
  OrtTensorTypeAndShapeInfo* made = nullptr;
  runtime_.check(api_.GetTensorTypeAndShape(&value, &made));
  const Owned<OrtTensorTypeAndShapeInfo> info(made, api_.ReleaseTensorTypeAndShapeInfo);
  size_t rank = 0;
  runtime_.check(api_.GetDimensionsCount(made, &rank));
  std::vector<int64_t> dims(rank);
  runtime_.check(api_.GetDimensions(made, dims.data(), rank));
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
    const auto count =
        std::accumulate(output.dims.begin(), output.dims.end(), int64_t{1}, std::multiplies<>());
    return {data, static_cast<std::size_t>(count) * size_of(output.spec->type), type,
            static_cast<int32_t>(output.dims.size()), output.dims.data()};
  }
  return {output.data, output.bytes, type, static_cast<int32_t>(output.dims.size()), output.dims.data()};
}

}  // namespace headroom::onnxruntime
