// Examines a run of headroom bench: its report, its log and its samples of the machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "types/finding.h"

namespace headroom::doctor {

// Adds findings, and returns what was read, in words. Fails if `report`, the file report.json, cannot be
// read. The words name other files that cannot be read.
Result<std::string> read_run(const std::filesystem::path& report, std::vector<Finding>& findings);

}  // namespace headroom::doctor
