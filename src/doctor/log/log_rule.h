// A rule: how a kind of message is worded, which figures it has, and what it means. Rules are texts
// (rule_text.h); see docs/how-to-add-a-doctor-rule.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/finding.h"

namespace headroom::doctor {

// What a line says about its event, beside figures. A rule's text names these (rule_text.h).
struct LineTraits {
  bool may_go_on = false;    // the line seems to be cut: the next line may contain the rest
  bool is_vague = false;     // the line fits several subjects: it joins the last message of its rule nearby
  bool is_of_unit = false;   // a line of systemd about a unit; a killed process may belong to the unit
  bool tells_shell = false;  // a shell, or Ollama, reports the end of its program without its number
  // The line is no message of its own. Its figures belong to the last message of its rule and subject nearby.
  // Of each `part`, the first counts.
  bool is_addition = false;
  bool is_echo = false;   // another line reports the same kill with more figures; alone, this is a message
  bool answers = false;   // the program went on without the memory that messages of LogRule::answers lacked
  bool is_final = false;  // no later line can answer it
  bool ends_program = false;   // the program ended, with all of its earlier requests
  bool goes_on = false;        // the line says that the program continues
  bool asks_for_less = false;  // the program retries with less: a smaller request soon after answers this one
  bool is_rounded = false;  // requested_bytes is rounded: another line of the event may have the exact size
};

// A line that a rule has read.
struct LogMessage : LineTraits {
  std::string subject;  // messages of one subject are one finding; empty: all messages of the rule are one
  std::string event;    // lines of one event: a victim's pid; empty: each line is an event
  // The line's role if several lines report one event: "terminate", "what". A line with another role soon
  // after belongs to the same event.
  std::string part{};
  std::string victim_group{};  // the path of a killed process's control group
  // RAM that belongs to no process, cache or kernel object, including zram. unaccounted_bytes is this less
  // the used swap, which may be in zram.
  std::optional<Bytes> unaccounted_with_zram{};
  std::vector<Figure> figures;
  bool is_none = false;  // the line is no such message

  void add(std::string_view name, const std::optional<Bytes>& bytes);
  void add(std::string_view name, const std::optional<std::int64_t>& number);
  void add(std::string_view name, std::string_view text);  // unless empty
  std::optional<Bytes> bytes(std::string_view name) const;
  std::optional<std::int64_t> number(std::string_view name) const;
  std::string text(std::string_view name) const;  // empty if absent
  void set(Figure figure);                        // replaces a figure of the same name
  void add_absent(const Figure& figure);          // unless a figure of this name exists
  void add_absent(const LogMessage& other);
};

// What the text of a rule cannot say: adds to the message, or sets is_none.
using RuleFunction = void (*)(std::string_view line, LogMessage& message);

// What a line says if it has a pattern, or in any case: figures, a trait, or one of LogMessage's texts.
struct Fact {
  std::string pattern{};        // its captures are figures; empty: any line. Or "if " and a condition
  std::string name{}, value{};  // a fixed figure, "subject", "event" or "part"
  bool LineTraits::*trait = nullptr;
};

// One wording of a message. Adding a message to a rule is adding one of these.
struct Wording {
  // Patterns (line_pattern.h) that the line matches, each anywhere: those of one of the alternatives.
  std::vector<std::vector<std::string>> alternatives{};
  std::vector<std::string> any{};   // patterns of which the line has one
  std::vector<std::string> none{};  // patterns that it does not have
  std::vector<Fact> facts{};        // of each name the first counts
  RuleFunction call = nullptr;
};

// A cure: templates. It is left out if a figure of it is missing or its condition does not hold.
struct CureRow {
  std::string what{}, command{};
  std::string saves{};  // an expression: "requested_bytes/2"
  std::string when{};   // a condition (finding_text.h)
};

// What a message means. The first of a rule whose condition holds is taken.
struct Explanation {
  std::string when{};
  Finding finding{.severity = Severity::severe, .confidence = Confidence::likely};  // title, cause: templates
  std::vector<CureRow> cures{};
};

// A rule of a family's text (rule_text.h), with its functions.
struct LogRule {
  std::string name{};
  // Rare texts of AnchorSearch::kShortest bytes or more: each line of the rule contains one. parse_rules()
  // adds those of the wordings.
  std::vector<std::string> anchors{};
  bool from_outside = false;  // another program reports it, such as a kill: no retry answers it
  // The lines are no findings: their figures belong to later messages of this rule in the same file, or of
  // every rule if this is kEveryRule. Those figures are also read from lines that are messages themselves.
  static constexpr std::string_view kEveryRule = "every";
  std::string context_of{};
  std::string figures_for{};        // the same, but the lines are findings, too
  std::string answers{};            // the rule whose messages LineTraits::answers is about
  bool is_kernel_kill = false;      // the kernel's OOM killer, whose report of many lines belongs to it
  bool repeats_kills = false;       // also reports kills by the kernel
  bool is_not_of_memory = false;    // a severe finding does not mean that memory ran out
  std::string told_better_by{};     // a rule that reports the same failures in the program's own words
  bool waits_for_failure = false;   // a warning alone; severe near a memory failure
  std::vector<Wording> wordings{};  // the first that matches is taken
  std::vector<Fact> facts{};        // of lines of any wording
  std::vector<Explanation> explanations{};
  RuleFunction derive = nullptr;  // computes figures for the explanations; they are not shown
  RuleFunction call = nullptr;    // for lines of any wording

  std::optional<LogMessage> read(std::string_view line) const;
  // All but evidence, times and figures, which the caller adds.
  Finding explain(const LogMessage& message) const;
};

// The rules in the order in which they are asked: the first that reads a line has it.
const std::vector<LogRule>& log_rules();

}  // namespace headroom::doctor
