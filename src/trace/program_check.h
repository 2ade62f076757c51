// Whether a command can be traced at all, asked before it is started: the preload library needs a program
// that the dynamic loader loads, and one for which the loader honours LD_PRELOAD.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace headroom::trace {

// The file that `name` runs: looked up in PATH unless it holds a slash. The error says what is wrong.
Result<std::filesystem::path> find_program(const std::string& name);

// An error for a static program, one that gains rights when it starts (setuid, setgid, file capabilities),
// one of another architecture or C library than the preload library's, one that a sanitizer's malloc was
// built into. A script is judged by its interpreter. A program that may be run but not read passes: nothing
// can be said about it.
Status check_traceable(const std::filesystem::path& program, const std::filesystem::path& library);

}  // namespace headroom::trace
