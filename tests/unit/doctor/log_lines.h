// Helpers for tests: the doctor's findings in given lines of a log.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "doctor/log/log_findings.h"
#include "types/finding.h"

namespace headroom::test {

using Lines = std::vector<std::string>;

inline std::vector<Finding> findings_of(const Lines& lines) {
  doctor::LogFindings logs;
  std::int64_t number = 0;
  for (const std::string& line : lines) logs.read_line("log", ++number, line);
  return logs.findings();
}

inline std::vector<std::string> ids_of(const Lines& lines) {
  std::vector<std::string> ids;
  for (const Finding& finding : findings_of(lines)) ids.push_back(finding.id);
  return ids;
}

// Expects exactly one finding.
inline Finding finding_in(const Lines& lines) {
  const auto findings = findings_of(lines);
  EXPECT_EQ(findings.size(), 1U) << lines.back();
  return findings.empty() ? Finding{} : findings[0];
}

// Expects exactly one finding of one event.
inline Finding only_of(const Lines& lines) {
  const Finding finding = finding_in(lines);
  EXPECT_EQ(finding.times, 1) << lines.back();
  return finding;
}

inline std::int64_t figure(const Finding& finding, std::string_view name) {
  for (const Figure& each : finding.figures)
    if (each.name == name && std::holds_alternative<std::int64_t>(each.value))
      return std::get<std::int64_t>(each.value);
  return -1;
}

inline std::string text_figure(const Finding& finding, std::string_view name) {
  for (const Figure& each : finding.figures)
    if (each.name == name && std::holds_alternative<std::string>(each.value))
      return std::get<std::string>(each.value);
  return {};
}

// The first finding with this id, or an empty finding.
inline Finding finding_of_id(const std::vector<Finding>& findings, std::string_view id) {
  for (const Finding& finding : findings)
    if (finding.id == id) return finding;
  return {};
}

inline std::vector<std::string> commands_of(const Finding& finding) {
  std::vector<std::string> commands;
  for (const Cure& cure : finding.cures) commands.push_back(cure.command);
  return commands;
}

inline const std::string kTorch =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 324.00 MiB. GPU 0 has a total capacity of "
    "7.63 GiB of which 91.25 MiB is free. Including non-PyTorch memory, this process has 7.52 GiB memory in "
    "use. Of the allocated memory 7.29 GiB is allocated by PyTorch, and 74.34 MiB is reserved by PyTorch but "
    "unallocated.";

}  // namespace headroom::test
