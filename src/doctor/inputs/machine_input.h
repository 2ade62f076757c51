// Examines samples of a machine: logs of headroom watch, text of other tools, and this machine.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "types/finding.h"

namespace headroom::doctor {

// These add findings, and return what was read, in words. `name`: what findings call the input.
Result<std::string> read_watch_log(const std::filesystem::path& file, const std::string& name,
                                   std::vector<Finding>& findings);
// `kind`: tool_of() the file.
Result<std::string> read_tool_text(const std::string& kind, const std::filesystem::path& file,
                                   std::vector<Finding>& findings);
// Samples the machine, or the tree under `root`, for one second.
Result<std::string> read_live_machine(const std::filesystem::path& root, const std::string& name,
                                      std::vector<Finding>& findings);

// The tool that printed text with this beginning: "tegrastats", "nvidia-smi" or "meminfo"; otherwise empty.
std::string tool_of(std::string_view begin);

}  // namespace headroom::doctor
