// The one place where an error is printed and becomes an exit code (docs/exit-codes.md).
#pragma once

#include "base/result.h"

namespace headroom::cli {

// Prints the error's sentence on standard error: 1 for a failure, 2 for wrong use or unreadable input, 3 for
// an internal fault.
int exit_code_of(const Error& error);
int exit_code_of(const Result<int>& result);

}  // namespace headroom::cli
