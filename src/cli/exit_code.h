// The one place where an error is printed and becomes an exit code (docs/exit-codes.md).
#pragma once

#include "base/result.h"

namespace headroom::cli {

// Prints the error's sentence on standard error: 1 for a failure, 2 for wrong use or unreadable input, 3 for
// an internal fault.
int exit_code_of(const Error& error);
// Of a verb's result: 3 for what could not be printed, as nobody saw what was found. Ctrl-C (130) and what
// else is more than 2 stands.
int exit_code_of(const Result<int>& result);

}  // namespace headroom::cli
