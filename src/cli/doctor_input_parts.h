// What the readers of headroom doctor's inputs have in common.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "doctor/log/log_findings.h"
#include "trace/summary_lines.h"
#include "types/finding.h"

namespace headroom::cli {

inline void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  for (Finding& finding : more) {
    doctor::sort_cures(finding);
    findings.push_back(std::move(finding));
  }
}

// "1,234 lines".
inline std::string counted(std::int64_t count, const char* one, const char* many) {
  return count == 1 ? fmt::format("1 {}", one) : fmt::format("{} {}", trace::grouped(count), many);
}

inline const std::string& reason(const Error& error) { return error.why.empty() ? error.what : error.why; }

}  // namespace headroom::cli
