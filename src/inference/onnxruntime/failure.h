// What ONNX Runtime's messages mean.
#pragma once

#include <string>
#include <string_view>

#include "inference/plugin/plugin_failure.h"

namespace headroom::onnxruntime {

using plugin::Failure;

// True for the words with which ONNX Runtime, the C++ library or the kernel says that an allocation was
// refused.
bool mentions_out_of_memory(std::string_view message);

// One line, without what helps only ONNX Runtime's own developers (plugin::without_source_places()) and
// without the path of the model, which the caller names already.
std::string clean_message(std::string_view message);

// What a message of ONNX Runtime means, in clean words.
Failure classify(std::string_view message);

}  // namespace headroom::onnxruntime
