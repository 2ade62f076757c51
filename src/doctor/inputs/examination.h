// What headroom doctor found in its inputs.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/result.h"
#include "doctor/log/log_findings.h"
#include "report/finding/finding_views.h"
#include "trace/summary_lines.h"
#include "types/finding.h"

namespace headroom::doctor {

struct Examination {
  LogFindings logs;
  std::vector<Finding> findings;  // of all inputs except logs
  std::vector<report::ExaminedInput> examined;
  // Absolute paths. An input that is given twice, or also by its folder or by a recording's tree, is read
  // once.
  std::set<std::string> seen;
  std::vector<std::string> left_out;  // files of folders that are neither text nor Headroom's

  // Returns false if the path was seen before.
  bool is_new(const std::filesystem::path& path) {
    std::error_code code;
    const std::filesystem::path whole = std::filesystem::weakly_canonical(path, code);
    return code || seen.insert(whole.string()).second;
  }
};

inline void add_findings(std::vector<Finding>& findings, std::vector<Finding> more) {
  for (Finding& finding : more) {
    sort_cures(finding);
    findings.push_back(std::move(finding));
  }
}

// "1,234 lines".
inline std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", trace::grouped(count), noun, count == 1 ? "" : "s");
}

inline const std::string& reason_of(const Error& error) { return error.why.empty() ? error.what : error.why; }

}  // namespace headroom::doctor
