// A run of headroom bench as headroom doctor reads it: its report, and beside it its log and its samples of
// the machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "types/finding.h"

namespace headroom::cli {

// `report` is the file report.json. What was read, in words. The report is what was asked for, so what cannot
// be read of the rest is no error, but said.
Result<std::string> read_run(const std::filesystem::path& report, std::vector<Finding>& findings);

}  // namespace headroom::cli
