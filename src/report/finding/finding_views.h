// The findings of headroom doctor as text, JSON and Markdown. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "types/finding.h"

namespace headroom::report {

// Raised when a key changes its meaning or is removed.
inline constexpr int kDoctorSchemaVersion = 1;

// An examined input, also without findings.
struct ExaminedInput {
  std::string input;  // as it was given, or a file of a folder
  std::string kind;   // "log", "watch log", "run", "recording", "snapshot", "machine", "tegrastats", …
  std::string words;  // "a log of 1,234 lines"
};

struct DoctorReport {
  std::vector<std::string> inputs;    // as they were given
  std::vector<std::string> problems;  // why one could not be read, or not whole
  std::vector<Finding> findings;      // the severe first
  // --try: for each model the cures that helped (or all, if none did) together
  std::vector<TriedCure> together{};
  std::vector<ExaminedInput> examined{};
  bool can_try = false;  // --try would try cures of the one input
};

nlohmann::ordered_json findings_to_json(const DoctorReport& report);
std::string findings_to_markdown(const DoctorReport& report);
// Wraps sentences at `width`; without a width nothing is wrapped, for grep. Never wraps log lines and
// commands.
std::string findings_to_terminal(const DoctorReport& report, bool color, std::optional<int> width = {});

}  // namespace headroom::report
