// Checks before the start whether a command can be traced. The preload library needs a dynamically linked
// program for which the loader honors LD_PRELOAD.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace headroom::trace {

// The file that `name` runs: looked up in PATH unless it contains a slash. The error states what is wrong.
Result<std::filesystem::path> find_program(const std::string& name);

// Returns an error for programs that cannot be traced. These are static ones, and those that gain rights when
// they start (setuid, setgid, file capabilities). Programs of another architecture or C library than the
// preload library's, and those with a sanitizer's malloc, cannot be traced either. For a script, its
// interpreter is checked. A program that can be run but not read passes unchecked.
Status check_traceable(const std::filesystem::path& program, const std::filesystem::path& library);

}  // namespace headroom::trace
