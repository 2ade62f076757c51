// Failures inside the ONNX Runtime plug-in. ONNX Runtime's own calls, allocations and container operations
// can all fail, so the plug-in throws inside and turns whatever arrives at the C boundary into an hr_error
// there (plugin.cpp): one place, and the code between reads straight.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "inference/backend_plugin.h"

namespace headroom::onnxruntime {

struct Failure {
  hr_error_kind kind = HR_ERROR_FAILED;
  std::string message;
};

// True for the words with which ONNX Runtime, the C++ library or the kernel says that an allocation was
// refused.
bool mentions_out_of_memory(std::string_view message);

// One line, without what helps only ONNX Runtime's own developers: "…/core/graph/model.cc:181
// onnxruntime::Model::Model(…) Unsupported model IR version: 14" becomes "Unsupported model IR version: 14".
std::string clean_message(std::string_view message);

// What a message of ONNX Runtime means, in clean words.
Failure classify(std::string_view message);

}  // namespace headroom::onnxruntime
