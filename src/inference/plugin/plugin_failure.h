// Failures inside a plug-in. Almost every step can fail: runtime calls, allocations, container operations.
// So the plug-in throws, and plugin_calls.h converts the exception to an hr_error in one place, at the C
// interface.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "inference/backend_plugin.h"
#include "types/tensor.h"

namespace headroom::plugin {

struct Failure {
  hr_error_kind kind = HR_ERROR_FAILED;
  std::string message;
};

// Failures with a formatted message: HR_ERROR_FAILED, and HR_ERROR_UNAVAILABLE.
template <class... Arguments>
Failure failed(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return {HR_ERROR_FAILED, fmt::format(text, std::forward<Arguments>(arguments)...)};
}
template <class... Arguments>
Failure unavailable(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return {HR_ERROR_UNAVAILABLE, fmt::format(text, std::forward<Arguments>(arguments)...)};
}

// Why dlopen() failed.
inline std::string last_dl_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "it cannot be loaded" : text;
}

// Returns the value of a Result, or throws its error as a Failure of this kind.
template <class T>
T value_or_throw(Result<T> result, hr_error_kind kind = HR_ERROR_FAILED) {
  if (!result) throw Failure{kind, result.error().sentence()};
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Checks the index of an input or output; `what` is "input" or "output". Throws Failure if it is out of
// range.
std::size_t checked_index(std::string_view what, std::int32_t index, std::size_t count);

// Throws Failure unless the tensor has the type of the model's input, fits its dimensions, and has the right
// size.
void check_input(const TensorSpec& spec, const hr_tensor& tensor);

// The size of a tensor in bytes. Throws Failure if a dimension is negative or the size overflows.
std::size_t checked_bytes(std::string_view input, const hr_tensor& tensor, std::size_t element_bytes);

// Puts a runtime's message on one line and removes source positions: "…/core/graph/model.cc:181
// onnxruntime::Model::Model(…) Unsupported model IR version: 14" becomes "Unsupported model IR version:
// 14".
std::string without_source_places(std::string_view message);

inline bool mentions(std::string_view message, std::string_view words) {
  return message.find(words) != std::string_view::npos;
}

// True if a message of a runtime, CUDA's libraries, the C++ library or the kernel reports refused memory.
bool mentions_out_of_memory(std::string_view message);

// An explanation for the user, which goes in front of a runtime's message that mentions all `words`.
struct Explanation {
  std::vector<std::string_view> words;
  std::string_view text;
};
// Converts a message of a runtime to a Failure. `clean` is the same message in one line.
Failure classify(std::string_view message, const std::string& clean,
                 const std::vector<Explanation>& explanations);

// Copies text into a fixed-size field of the plug-in interface, and terminates it. Cuts text that does not
// fit.
template <std::size_t size>
void copy_text(char (&to)[size], std::string_view from) {
  const std::size_t length = std::min(from.size(), size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

}  // namespace headroom::plugin
