// Recognizes lines that only mention a message: advice, lists, tables, counters, source code, results of
// tests, quotations, configuration and subjects of commits.
#pragma once

#include <string_view>

namespace headroom::doctor {

// Judges the first known phrase in the line; false if there is none. A line with the request and the
// available memory reports a failure, whatever stands before it ("worker may restart - CUDA out of memory.
// Tried to allocate …").
bool is_only_spoken_of(std::string_view line, bool tells_amounts = false);

}  // namespace headroom::doctor
