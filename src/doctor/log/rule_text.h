// The text of rules: what a message looks like in a log, and what it means.
//
//   rule jetson-utils
//     line cudaAllocMapped && failed -> none=" 0 failed"
//     finding mapped-memory-failed possible
//       title jetson.utils could not allocate memory that CPU and GPU share
//       cause The program keeps too many frames, or the frames are larger than the model needs.
//       cure release frames as soon as they are used => del image
//       cure @see-holders
//
// A line that is indented by six spaces or more goes on with the line before; "#" begins a line of comment. A
// text with a space at an end stands in quotation marks: "oom ". Lists are separated by " || ".
//
// Lines of a rule, beside those of LogRule's fields ("anchors", "derive", "flags", …):
//   line PATTERN && PATTERN -> …  a wording: patterns (line_pattern.h) that the line has. Behind the arrow,
//                                 separated by "; ": "subject=…", "event=…", "part=…", "none=…",
//                                 "check=…", "add=…", "figures=@name", LineTraits ("is_final") and fixed
//                                 figures ("memory=host").
//   any, none, figures LIST       more of the wording above
//   finding ID [SEVERITY] [CONFIDENCE] [first_cure_meets_cause] [when CONDITION]
//                                 a meaning, severe and likely if not said otherwise; the first whose
//                                 condition (finding_text.h) holds is taken
//   title, cause TEXT             templates (finding_text.h); those of the finding above if left out
//   cure WHAT => COMMAND [:: saves EXPRESSION] [:: when CONDITION]
//                                 none at all: those of the finding above, or "no_cures"
//   cure @name                    all cures of a list, with conditions of their own
//
// "cures NAME" and "figures NAME" begin a list that later rules name, of one "cure" or one pattern a line.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

struct RuleFunction {
  std::string_view name;
  std::variant<CheckLine, AddFigures, ReadLine, Derive> call;
};

// The rules of a file, with the functions that their text names.
struct RuleFamily {
  std::string_view text;
  std::vector<RuleFunction> functions{};
};

// Throws std::logic_error if a text is wrong.
std::vector<LogRule> parse_rules(const std::vector<RuleFamily>& families);

}  // namespace headroom::doctor
