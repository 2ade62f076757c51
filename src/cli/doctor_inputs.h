// What headroom doctor reads: each file by what it holds, and this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "doctor/log/log_findings.h"
#include "report/finding_views.h"

namespace headroom::cli {

struct Examination {
  doctor::LogFindings logs;
  std::vector<Finding> findings;  // of all that is no log
  std::vector<report::ExaminedInput> examined;
};

// What a file that is neither text nor Headroom's own is: an error where it was named, and left out where it
// only lies in a folder.
enum class IfBinary { error, leave_out };

// Recordings, snapshots, runs, logs of headroom watch and of tegrastats give findings of their own; all else
// is a log. On an error what was found before is kept.
Status read_doctor_input(const std::string& path, IfBinary if_binary, Examination& examination);

// A second of this machine, or of a tree.
Status examine_machine(const std::filesystem::path& root, Examination& examination);

}  // namespace headroom::cli
