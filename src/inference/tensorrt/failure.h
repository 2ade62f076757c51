// Recognises TensorRT's messages about refused memory.
#pragma once

#include <string_view>

#include "inference/plugin/plugin_failure.h"

namespace headroom::tensorrt {

using plugin::Failure;
using plugin::value_or_throw;

// True if the message reports refused memory. "Could not find any implementation for node" is not
// included: it means refused memory only if the allocator refused a request, which the caller checks.
bool mentions_out_of_memory(std::string_view message);

}  // namespace headroom::tensorrt
