// A rule: how a kind of message is worded, which figures it has, and what it means. Most rules are data, a
// row for each wording and for each meaning; see docs/how-to-add-a-doctor-rule.md. log_rule_list.cpp lists
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/finding.h"

namespace headroom::doctor {

// How a line is to be taken.
struct LineTraits {
  bool may_go_on = false;    // it looks cut: the next line may have the rest
  bool is_vague = false;     // it fits several subjects: it goes with the last message of its rule nearby
  bool is_of_unit = false;   // systemd's, of the unit that it names: a killed process may have been in it
  bool tells_shell = false;  // a shell, of the program that it waited for
  // Figures for the last message of its rule and subject nearby, and no message of its own. Of each part the
  // first counts.
  bool is_addition = false;
  bool is_echo = false;        // of a kill that another line tells with more; only alone it is a message
  bool answers = false;        // the program did without what the rule LogRule::answers told that it lacked
  bool is_final = false;       // whatever follows, it failed
  bool ends_program = false;   // and so did all that the program asked for before
  bool goes_on = false;        // the line itself says that the program goes on without
  bool asks_for_less = false;  // the program asks again for less: such a message soon after answers it
  bool is_rounded = false;     // requested_bytes has a few digits: another line of the event may be exact
  // It is part of a message of its rule, at most so many lines behind it, or before it; alone it is a
  // message.
  std::int64_t lines_to_whole = 0, lines_from_whole = 0;
};

// What a line said.
struct LogMessage : LineTraits {
  std::string subject;  // messages with the same are one finding: a victim's name; empty: all are one
  std::string event;    // lines with the same tell one event: a victim's pid; empty: each is one
  // One event may be told in several lines. Which of them this is: "terminate", "what". A line of another
  // part soon after belongs to the same event.
  std::string part{};
  std::string victim_group{};  // the path of the control group that a killed process was in
  // RAM that belongs to no process, cache or kernel object, zram included. unaccounted_bytes is this less the
  // used swap, which may be in zram.
  std::optional<Bytes> unaccounted_with_zram{};
  std::vector<Figure> figures;

  void add(std::string_view name, const std::optional<Bytes>& bytes);
  void add(std::string_view name, const std::optional<std::int64_t>& number);
  void add(std::string_view name, std::string_view text);  // unless empty
  std::optional<Bytes> bytes(std::string_view name) const;
  std::optional<std::int64_t> number(std::string_view name) const;
  std::string text(std::string_view name) const;  // empty if absent
  void set(Figure figure);                        // in place of one of the same name
  void add_absent(const Figure& figure);          // unless there is one of its name
  void add_absent(const LogMessage& other);
};

// One wording of a message. Adding a message to a rule is adding a row of these.
struct Wording {
  std::vector<std::string_view> all;     // patterns (line_pattern.h) that the line matches, each anywhere
  std::vector<std::string_view> any{};   // texts of which the line has one
  std::vector<std::string_view> none{};  // texts that it does not have
  // In this order: patterns of figures that the line may have, and fixed ones ("memory=host"). Of each name
  // the first counts.
  std::vector<std::string_view> figures{};
  std::string_view subject{}, part{};  // the subject is a template (finding_text.h)
  LineTraits traits{};
  bool (*check)(std::string_view line) = nullptr;                     // what patterns cannot say
  void (*add)(std::string_view line, LogMessage& message) = nullptr;  // figures that need code
};

// A cure: templates. It is left out if a figure of it is missing or its condition does not hold.
struct CureRow {
  std::string_view what, command{};
  std::string_view saves{};  // an expression: "requested_bytes/2"
  std::string_view when{};   // a condition (finding_text.h)
};

// What a message means. The first row of a rule whose condition holds is taken.
struct Explanation {
  std::string_view when{};
  std::string_view id;
  Severity severity = Severity::severe;
  Confidence confidence = Confidence::likely;
  std::string_view title, cause;
  std::vector<CureRow> cures{};
  bool first_cure_meets_cause = false;
};

struct LogRule {
  std::string_view name;
  // Each line holds one of these; AnchorSearch::kShortest bytes or more, rare ones. Those of the wordings are
  // added (log_rules()).
  std::vector<std::string_view> anchors{};
  std::optional<LogMessage> (*read_first)(std::string_view line) = nullptr;  // before the wordings
  // If no explanation holds: all but evidence, times and figures, which the caller adds.
  Finding (*explain_by)(const LogMessage& message) = nullptr;
  bool from_outside = false;  // told of a program by another, a kill: trying again does not answer it
  // What it reads is no finding: its figures go with later messages of this rule in the same file.
  std::string_view context_of{};
  std::string_view figures_for{};  // likewise, of what is a finding
  std::string_view answers{};      // whose messages those of its own answer that say so (LineTraits::answers)
  bool is_kernel_kill = false;     // the kernel's killer: its report of many lines goes with it
  bool repeats_kills = false;      // tells of what the kernel's killer did, too
  bool is_of_memory = true;        // what is severe of it is a want of memory
  std::string_view told_better_by{};  // the rule whose failures, near, are these in a program's own words
  bool waits_for_failure = false;     // alone no alarm; severe where something failed for memory near it
  // Reads figures in so many lines behind a message of this rule, in words too common to look for elsewhere.
  std::optional<LogMessage> (*read_behind)(std::string_view line) = nullptr;
  std::int64_t lines_behind = 0;
  std::vector<Wording> wordings{};  // the first that matches is taken
  std::vector<Explanation> explanations{};
  // Computes figures for the explanations, which are not shown.
  void (*derive)(LogMessage& message) = nullptr;
  void (*add)(std::string_view line, LogMessage& message) = nullptr;  // figures of a line of any wording

  std::optional<LogMessage> read(std::string_view line) const;
  Finding explain(const LogMessage& message) const;
};

// The rules in the order in which they are asked: the first that reads a line has it.
const std::vector<LogRule>& log_rules();

// The cures whose figures the message has.
void add_cures(const std::vector<CureRow>& rows, const LogMessage& message, std::vector<Cure>& cures);

// For titles: "2.0 MiB", or `otherwise`.
std::string words_for(const std::optional<Bytes>& bytes, std::string_view otherwise = "some memory");

}  // namespace headroom::doctor
