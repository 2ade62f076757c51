// What headroom doctor reads: each file by what it holds, and this machine.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/result.h"
#include "doctor/log/log_findings.h"
#include "report/finding/finding_views.h"

namespace headroom::cli {

struct Examination {
  doctor::LogFindings logs;
  std::vector<Finding> findings;  // of all that is no log
  std::vector<report::ExaminedInput> examined;
  // By whole path: what is named twice, or by itself and by its folder, or beside a recording, is read once.
  std::set<std::string> seen;
  std::vector<std::string> left_out;  // files of folders that are neither text nor Headroom's

  // False if it was there before.
  bool is_new(const std::filesystem::path& path) {
    std::error_code code;
    const std::filesystem::path whole = std::filesystem::weakly_canonical(path, code);
    return code || seen.insert(whole.string()).second;
  }
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
