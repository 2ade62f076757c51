// Where a recording goes. Nothing is ever overwritten unless that was asked for, and then only recordings.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace headroom::trace {

// The absolute path of the recording, in a folder that exists and can be written; the file itself does not
// exist. With an empty `wanted` it is outputs/YYYY-MM-DD_HH-MM-SS/PROGRAM.hrec.
Result<std::filesystem::path> prepare_output(const std::filesystem::path& wanted, const std::string& program,
                                             bool replace);

// FILE.hrec.d: the recordings of the command's other processes.
std::filesystem::path tree_folder(const std::filesystem::path& recording);

}  // namespace headroom::trace
