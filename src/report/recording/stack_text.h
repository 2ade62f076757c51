// How a call stack is shown: its functions, innermost first.
#pragma once

#include <string>
#include <vector>

#include "report/recording/recording_views.h"

namespace headroom::report {

// All functions of a stack, inlined ones as frames of their own. Empty for "no stack".
std::vector<std::string> frames_of(const RecordingReport& report, StackId stack);

// "load_weights ← Session::Session ← main": as many as fit. What only passes an allocation on (operator new,
// the containers of std) is left out, so the first is the one to look at.
std::string one_line_stack(const std::vector<std::string>& frames, int width);
std::string one_line_stack(const RecordingReport& report, StackId stack, int width);

// A function's name without its parameters, template arguments and what compilers add to copies of it:
// "Session::run", not "Session::run(std::span<Tensor const, 18446744073709551615ul>) [clone .isra.0]".
std::string short_function(const std::string& function);

}  // namespace headroom::report
