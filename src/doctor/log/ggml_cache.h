// llama.cpp's cache of keys and values that did not fit: why, and what would fit. A layer's part of the cache
// lies where the layer is, and the whole grows with the context.
#pragma once

#include <string>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// Whether the buffer that ggml was refused is the cache, as the program told behind it.
bool is_cache_refused(const LogMessage& message);
std::string cause_of_cache(const LogMessage& message, bool is_host);
// In llama.cpp's flags.
void add_cache_cures(const LogMessage& message, bool is_host, Finding& finding);

}  // namespace headroom::doctor
