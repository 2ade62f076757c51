// The views of the findings of headroom doctor (docs/doctor.md). Pure: from findings to text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "types/finding.h"

namespace headroom::report {

// Major version: raised when a key changes its meaning or goes; keys may be added without.
inline constexpr int kDoctorSchemaVersion = 1;

// What was looked at, also where nothing was found.
struct ExaminedInput {
  std::string input;  // as it was given, or a file of a folder
  std::string kind;   // "log", "watch log", "run", "recording", "snapshot", "machine", "tegrastats", …
  std::string words;  // "a log of 1,234 lines"
};

struct DoctorReport {
  std::vector<std::string> inputs;    // as they were given
  std::vector<std::string> problems;  // why one could not be read, or not whole
  std::vector<Finding> findings;      // the severe first
  // --try: of each model those that helped (or all, where none did), at once
  std::vector<TriedCure> together{};
  std::vector<ExaminedInput> examined{};
  bool can_try = false;  // --try would try cures of the one input
};

nlohmann::ordered_json findings_to_json(const DoctorReport& report);
std::string findings_to_markdown(const DoctorReport& report);
// Sentences are broken at `width` columns; without a width they are not, so that grep works. Lines of logs
// and commands are never broken.
std::string findings_to_terminal(const DoctorReport& report, bool color, std::optional<int> width = {});

// "requested_bytes", 2097152 → "requested", "2.0 MiB".
std::string title_of_figure(const headroom::Figure& figure);
std::string value_of_figure(const headroom::Figure& figure);
// "1 severe, 2 warnings", "nothing found".
std::string count_in_words(const std::vector<Finding>& findings);

}  // namespace headroom::report
