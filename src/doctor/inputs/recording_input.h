// Examines recordings of headroom trace and memory snapshots of PyTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "doctor/inputs/examination.h"

namespace headroom::doctor {

// Add their findings, and return what was read, in words.
Result<std::string> read_recording(const std::filesystem::path& file, std::vector<Finding>& findings);
Result<std::string> read_snapshot(const std::filesystem::path& file, std::vector<Finding>& findings);

// Examines the recordings of the command's other processes, which are beside its own: the child of a wrapper
// is the program itself. An unreadable one is reported and skipped.
void read_other_processes(const std::filesystem::path& recording, Examination& examination);

}  // namespace headroom::doctor
