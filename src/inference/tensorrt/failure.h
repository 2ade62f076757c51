// Which of TensorRT's messages are of refused memory.
#pragma once

#include <string_view>

#include "inference/plugin/plugin_failure.h"

namespace headroom::tensorrt {

using plugin::Failure;
using plugin::value_or_throw;

// True for the words with which TensorRT says that memory was refused. "Could not find any implementation for
// node" is one of them only where the allocator refused something, too.
bool mentions_out_of_memory(std::string_view message);

}  // namespace headroom::tensorrt
