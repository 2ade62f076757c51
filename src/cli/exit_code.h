// The one place where an error is printed and becomes an exit code (docs/exit-codes.md).
#pragma once

#include "base/result.h"

namespace headroom::cli {

// Ctrl-C, as a shell reports it.
inline constexpr int kExitInterrupted = 130;

// Prints the error on standard error. Returns 1 for a failure, 2 for wrong use or unreadable input, 3 for an
// internal error.
int exit_code_of(const Error& error);
// The exit code of a verb: 3 if its output could not be written. Codes above 2, such as 130 for Ctrl-C, stay.
int exit_code_of(const Result<int>& result);

}  // namespace headroom::cli
