// Failures inside a plug-in. Almost every step can fail: runtime calls, allocations, container operations.
// So the plug-in throws, and plugin_calls.h converts the exception to an hr_error in one place, at the C
// interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "inference/backend_plugin.h"

namespace headroom::plugin {

struct Failure {
  hr_error_kind kind = HR_ERROR_FAILED;
  std::string message;
};

// Returns the value of a Result, or throws its error as a Failure of this kind.
template <class T>
T value_or_throw(Result<T> result, hr_error_kind kind = HR_ERROR_FAILED) {
  if (!result) throw Failure{kind, result.error().sentence()};
  return std::move(*result);
}

// Checks the index of an input or output; `what` is "input" or "output". Throws Failure if it is out of
// range.
std::size_t checked_index(std::string_view what, std::int32_t index, std::size_t count);

// The size of a tensor in bytes. Throws Failure if a dimension is negative or the size overflows.
std::size_t checked_bytes(std::string_view input, const hr_tensor& tensor, std::size_t element_bytes);

// Puts a runtime's message on one line and removes source positions: "…/core/graph/model.cc:181
// onnxruntime::Model::Model(…) Unsupported model IR version: 14" becomes "Unsupported model IR version:
// 14".
std::string without_source_places(std::string_view message);

}  // namespace headroom::plugin
