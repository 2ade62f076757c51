// The decoder process (hidden verb `_decode METADATA`): fills the worker's frame ring.
#pragma once

#include <string>

namespace headroom::bench {

int run_decode_process(const std::string& metadata);

}  // namespace headroom::bench
