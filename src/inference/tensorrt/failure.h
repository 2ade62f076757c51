// Failures inside the TensorRT plug-in: thrown here, turned into an hr_error at the C boundary (plugin.cpp).
#pragma once

#include "base/result.h"
#include "inference/onnxruntime/failure.h"

namespace headroom::tensorrt {

using onnxruntime::Failure;

// What a Result of Headroom's own code holds, or its error as a Failure of this kind.
template <class T>
T value_or_throw(Result<T> result, hr_error_kind kind = HR_ERROR_FAILED) {
  if (!result) throw Failure{kind, result.error().sentence()};
  return std::move(*result);
}

// True for the words with which TensorRT says that memory was refused. "Could not find any implementation for
// node" is one of them only where the allocator refused something, too.
bool mentions_out_of_memory(std::string_view message);

}  // namespace headroom::tensorrt
