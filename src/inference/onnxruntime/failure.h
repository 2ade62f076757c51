// Interprets ONNX Runtime's error messages.
#pragma once

#include <string>
#include <string_view>

#include "inference/plugin/plugin_failure.h"

namespace headroom::onnxruntime {

using plugin::Failure;

// True if a message of ONNX Runtime, the C++ library or the kernel reports a refused allocation.
bool mentions_out_of_memory(std::string_view message);

// Shortens a message to one line. Removes source positions (plugin::without_source_places()) and the
// model's path, which the caller reports anyway.
std::string clean_message(std::string_view message);

// Converts a message of ONNX Runtime to a Failure with a short explanation.
Failure classify(std::string_view message);

}  // namespace headroom::onnxruntime
