// What LibTorch's messages mean.
#pragma once

#include <string>
#include <string_view>

#include "inference/plugin/plugin_failure.h"

namespace headroom::libtorch {

using plugin::Failure;

// True for the words with which LibTorch, CUDA's libraries or the C++ library say that memory was refused.
// On a Jetson the caching allocator says it with an assertion of its own.
bool mentions_out_of_memory(std::string_view message);

// One line: what failed, and in which function of the model; without the stacks of C++ and of the
// interpreter, and without advice to developers.
std::string clean_message(std::string_view message);

// What a message of LibTorch means, in clean words.
Failure classify(std::string_view message);

}  // namespace headroom::libtorch
