// The text of rules: what a message looks like in a log, and what it means. An example is in
// docs/how-to-add-a-doctor-rule.md.
//
// A line that is indented by six spaces or more goes on with the line before; "#" begins a line of comment. A
// text with a space at an end stands in quotation marks: "oom ". Lists are separated by " || ".
//
// "rule NAME: OPTION OPTION" begins a rule. The options are fields of LogRule: "from_outside",
// "context_of=RULE" ("every": of all rules), "derive=function". Its lines:
//   anchors LIST                  rare texts, beside those of the patterns
//   line PATTERN && PATTERN [|| ALTERNATIVE] -> …
//       a wording: patterns (line_pattern.h) that the line has, or those of an alternative. Behind the arrow,
//       separated by "; ": "subject=…", "event=…", "part=…", "none=…", "any=LIST", "call=function",
//       "figures=PATTERN", "figures=@name", LineTraits ("is_final") and fixed figures ("memory=host").
//       Without a pattern: any line with one of the wording's "figures"; of a rule with "context_of" only.
//   or PATTERN && PATTERN         one more alternative, a long one
//   any, none LIST                patterns of which the line has one or none
//   figures LIST
//       patterns of figures that the line may have. "PATTERN => memory=host": what holds for lines with the
//       pattern; "memory=host <= LIST": with one of them; "if !gpu => is_vague": for messages with this
//       condition. Above the first "line", the list belongs to all of the rule.
//   finding ID [SEVERITY] [CONFIDENCE] [first_cure_meets_cause] [when CONDITION]
//       a meaning, severe and likely if not said otherwise; the first whose condition (finding_text.h) holds
//   title, cause TEXT             templates (finding_text.h); those of the finding above if left out
//   cure WHAT => COMMAND [:: saves EXPRESSION] [:: when CONDITION]
//       if there is none at all: those of the finding above, or "no_cures"
//   cure @name @other             all cures of lists, with conditions of their own
//
// "cures NAME" and "figures NAME" begin a list that later rules name: lines of one "cure", or of "figures".
// "cures NAME: WHAT => COMMAND" is a list of one.
#pragma once

#include <map>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// The rules of a file, with the functions that their text names.
struct RuleFamily {
  std::string_view text;
  std::map<std::string_view, RuleFunction> functions{};
};

// Of log/rules/, a file each; rules.cpp lists them.
RuleFamily pytorch_rules(), cuda_rules(), tensorflow_rules(), tensorrt_rules(), ggml_rules(),
    llm_servers_rules(), host_rules(), kernel_rules(), containers_rules(), killed_rules();

// Throws std::logic_error if a text is wrong.
std::vector<LogRule> parse_rules(const std::vector<RuleFamily>& families);

}  // namespace headroom::doctor
