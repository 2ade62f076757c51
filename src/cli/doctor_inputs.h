// What headroom doctor reads: each file by what it holds, and this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "doctor/log_findings.h"

namespace headroom::cli {

// Recordings, snapshots, runs and logs of headroom watch give findings of their own; all else is a log, and
// goes to `logs`. On an error what was found before is kept.
Status read_doctor_input(const std::string& path, doctor::LogFindings& logs, std::vector<Finding>& findings);

// A second of this machine, or of a tree.
Status examine_machine(const std::filesystem::path& root, std::vector<Finding>& findings);

}  // namespace headroom::cli
