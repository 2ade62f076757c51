// What a session calls around a module's forward(): autocast before it, and afterwards the conversion of its
// result to plain tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "types/runtime_choices.h"

namespace headroom::libtorch {

// Whether LibTorch computes in half precision on the CPU.
bool has_half_on_cpu();

// Enables autocast on this thread while it lives: LibTorch computes float32 operators in `precision` where
// it considers that safe.
class Autocast {
 public:
  Autocast(c10::DeviceType device, Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  bool is_on_;
  at::ScalarType type_;
};

// Appends the tensors of a module's result, which may be nested, and their names; what is not a tensor gets
// an undefined one. `names` may be null.
void flatten(const c10::IValue& value, const std::string& name, std::vector<std::string>* names,
             std::vector<at::Tensor>& tensors);

// Converts an output to what the caller reads: plain numbers, dense and row-major. Halves that autocast
// left become float32, like the outputs without autocast.
at::Tensor readable(const at::Tensor& tensor, Precision precision);

}  // namespace headroom::libtorch
