// Interprets ONNX Runtime's error messages.
#pragma once

#include <string>
#include <string_view>

#include "inference/plugin/plugin_failure.h"

namespace headroom::onnxruntime {

using plugin::failed;
using plugin::Failure;
using plugin::unavailable;

// Shortens a message to one line. Removes source positions (plugin::without_source_places()) and the
// model's path, which the caller reports anyway.
std::string clean_message(std::string_view message);

// The cure if ONNX Runtime's library cannot be opened. `reasons`: what dlerror() said; `otherwise`: the cure
// if the system is not too old.
std::string_view fix_for_opening(std::string_view reasons, std::string_view otherwise);

// Converts a message of ONNX Runtime to a Failure with a short explanation.
Failure classify(std::string_view message);

}  // namespace headroom::onnxruntime
