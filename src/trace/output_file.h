// Chooses the file of a recording. Existing files are replaced only on request, and only if they are
// recordings.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace headroom::trace {

// Returns the absolute path of the recording. Its folder exists and is writable; the file does not exist.
// With an empty `wanted`, the path is outputs/YYYY-MM-DD_HH-MM-SS/PROGRAM.hrec.
Result<std::filesystem::path> prepare_output(const std::filesystem::path& wanted, const std::string& program,
                                             bool replace);

// FILE.hrec.d: contains the recordings of the command's other processes.
std::filesystem::path tree_folder(const std::filesystem::path& recording);

}  // namespace headroom::trace
