// Failures inside a plug-in. A runtime's calls, allocations and container operations can all fail, so a
// plug-in throws inside and turns whatever arrives at the C boundary into an hr_error there (plugin_calls.h):
// one place, and the code between reads straight.
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

// What a Result of Headroom's own code holds, or its error as a Failure of this kind.
template <class T>
T value_or_throw(Result<T> result, hr_error_kind kind = HR_ERROR_FAILED) {
  if (!result) throw Failure{kind, result.error().sentence()};
  return std::move(*result);
}

// The index of one of `count` inputs or outputs, as `what` says. Throws Failure where there is none.
std::size_t checked_index(std::string_view what, std::int32_t index, std::size_t count);

// The bytes of a tensor of these dimensions. Throws Failure where one is negative or they are more than can
// be.
std::size_t checked_bytes(std::string_view input, const hr_tensor& tensor, std::size_t element_bytes);

// A runtime's message on one line, without what helps only its own developers: "…/core/graph/model.cc:181
// onnxruntime::Model::Model(…) Unsupported model IR version: 14" becomes "Unsupported model IR version: 14".
std::string without_source_places(std::string_view message);

}  // namespace headroom::plugin
