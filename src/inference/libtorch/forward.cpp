#include "inference/libtorch/forward.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/csrc/api/include/torch/version.h>

#include "inference/libtorch/module.h"

namespace headroom::libtorch {
namespace {

// LibTorch 2.4 added autocast to half on the CPU, and autocast functions with a device argument.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
constexpr bool kHasHalfOnCpu = true;
void set_autocast(c10::DeviceType device, bool on, at::ScalarType type) {
  at::autocast::set_autocast_dtype(device, type);
  at::autocast::set_autocast_enabled(device, on);
}
#else
constexpr bool kHasHalfOnCpu = false;
void set_autocast(c10::DeviceType device, bool on, at::ScalarType type) {
  if (device == c10::DeviceType::CPU) {
    if (on) at::autocast::set_autocast_cpu_dtype(type);
    at::autocast::set_cpu_enabled(on);
  } else {
    if (on) at::autocast::set_autocast_gpu_dtype(type);
    at::autocast::set_enabled(on);
  }
}
#endif

}  // namespace

bool has_half_on_cpu() { return kHasHalfOnCpu; }

Autocast::Autocast(c10::DeviceType device, Precision precision)
    : device_(device),
      is_on_(precision == Precision::fp16 || precision == Precision::bf16),
      type_(precision == Precision::fp16 ? at::kHalf : at::kBFloat16) {
  if (is_on_) set_autocast(device_, true, type_);
}

Autocast::~Autocast() {
  if (!is_on_) return;
  at::autocast::clear_cache();
  set_autocast(device_, false, type_);
}

void flatten(const c10::IValue& value, const std::string& name, std::vector<std::string>* names,
             std::vector<at::Tensor>& tensors) {
  const auto part = [&](std::size_t i) { return names == nullptr ? name : fmt::format("{}_{}", name, i); };
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    for (std::size_t i = 0; i < elements.size(); ++i) flatten(elements[i], part(i), names, tensors);
  } else if (value.isList() || value.isTensorList()) {
    const auto elements = value.toListRef();
    for (std::size_t i = 0; i < elements.size(); ++i) flatten(elements[i], part(i), names, tensors);
  } else if (value.isGenericDict()) {
    std::size_t i = 0;
    for (const auto& entry : value.toGenericDict())
      flatten(entry.value(), entry.key().isString() ? entry.key().toStringRef() : part(i++), names, tensors);
  } else {
    if (names != nullptr) names->push_back(name);
    tensors.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
  }
}

at::Tensor readable(const at::Tensor& tensor, Precision precision) {
  if (!tensor.defined() || element_type_of(tensor.scalar_type()) == ElementType::unknown) return {};
  at::Tensor plain = tensor.layout() == at::kStrided ? tensor : tensor.to_dense();
  const bool is_half = plain.scalar_type() == at::kHalf || plain.scalar_type() == at::kBFloat16;
  if (precision != Precision::fp32 && is_half) plain = plain.to(at::kFloat);
  return plain.contiguous();
}

}  // namespace headroom::libtorch
