// Interprets LibTorch's error messages.
#pragma once

#include <string>
#include <string_view>

#include "inference/plugin/plugin_failure.h"

namespace headroom::libtorch {

using plugin::Failure;

// True if a message of LibTorch, CUDA's libraries or the C++ library reports refused memory. On a Jetson,
// the caching allocator reports it with an assertion of its own.
bool mentions_out_of_memory(std::string_view message);

// Shortens a message to one line: what failed, and in which function of the model. Removes the stacks of
// C++ and of the interpreter, and advice to developers.
std::string clean_message(std::string_view message);

// Converts a message of LibTorch to a Failure with a short explanation.
Failure classify(std::string_view message);

}  // namespace headroom::libtorch
