// One kind of message: how it is told from others, what its figures are, and what it means. A file each,
// <name>_rule.cpp, and one list, log_rule_list.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/finding.h"

namespace headroom::doctor {

// What a line said.
struct LogMessage {
  std::string subject;  // messages with the same are one finding: a victim's name; empty: all are one
  std::string event;    // lines with the same tell one event: a victim's pid; empty: each is one
  // Where one event is told in several lines of different words, which of them: "terminate", "what". A line
  // of another part soon after belongs to the same event.
  std::string part{};
  bool may_go_on = false;  // it looks cut: the next line may have the rest
  // It does not tell of which of several things it is: it goes with the last message of its rule nearby.
  bool is_vague = false;
  // systemd's, of the unit that it names: a process that the kernel killed may have been in it.
  bool is_of_unit = false;
  // A kill, and not of which process: what a shell told of one, before it and near, is this.
  bool is_of_unnamed = false;
  bool tells_shell = false;  // a shell, of the program that it waited for
  // Figures for the last message of its rule and subject nearby, and no message of its own; of each part the
  // first counts.
  bool is_addition = false;
  // It is no more than a part of a message of its rule so many lines behind it at most, or before it, where
  // that has none of the like yet; alone it is a message of its own.
  std::int64_t lines_to_whole = 0, lines_from_whole = 0;
  std::string victim_group{};  // the path of the control group that a killed process was in
  // RAM that belongs to no process, cache or kernel object, zram included. unaccounted_bytes is this less the
  // used swap, which may be in zram.
  std::optional<Bytes> unaccounted_with_zram{};
  bool is_echo = false;       // of a kill that another line tells with more; only alone it is a message
  bool answers = false;       // the program did without what the rule LogRule::answers told that it lacked
  bool is_final = false;      // whatever follows, it failed
  bool ends_program = false;  // and so did all that the program asked for before
  bool goes_on = false;       // the line itself says that the program goes on without
  bool asks_for_less =
      false;  // refused, the program asks again for less: such a message soon after answers it
  // Its requested_bytes is a figure of a few digits, "345.72 MiB": another line of the event may be exact.
  bool is_rounded = false;
  std::vector<Figure> figures;

  void add(std::string_view name, const std::optional<Bytes>& bytes);
  void add(std::string_view name, const std::optional<std::int64_t>& number);
  void add(std::string_view name, std::string_view text);  // unless empty
  std::optional<Bytes> bytes(std::string_view name) const;
  std::optional<std::int64_t> number(std::string_view name) const { return to_number(bytes(name)); }
  std::string text(std::string_view name) const;  // empty if absent
  void set(Figure figure);                        // in place of one of the same name
  void add_absent(const LogMessage& other);       // its figures that this one has not

 private:
  static std::optional<std::int64_t> to_number(const std::optional<Bytes>& bytes) {
    return bytes ? std::optional(bytes->count) : std::nullopt;
  }
};

struct LogRule {
  std::string_view name;
  // Each such line holds one of these; AnchorSearch::kShortest bytes or more, rare ones.
  std::vector<std::string_view> anchors;
  std::optional<LogMessage> (*read)(std::string_view line);
  // All but evidence, times and figures, which whoever calls it adds.
  Finding (*explain)(const LogMessage& message);
  bool from_outside = false;  // told of a program by another, a kill: trying again does not answer it
  // What it reads is no finding: its figures go with later messages of this rule in the same file.
  std::string_view context_of{};
  std::string_view figures_for{};  // likewise, of what is a finding
  std::string_view answers{};      // whose messages those of its own answer that say so (LogMessage::answers)
  bool is_kernel_kill = false;     // the kernel's killer: its report of many lines goes with it
  bool repeats_kills = false;      // tells of what the kernel's killer did, too
  bool is_of_memory = true;        // what is severe of it is a want of memory
  std::string_view told_better_by{};  // the rule whose failures, near, are these in a program's own words
  bool waits_for_failure = false;     // alone no alarm; severe where something failed for memory near it
  // Reads figures in so many lines behind a message of this rule, in words too common to look for elsewhere.
  std::optional<LogMessage> (*read_behind)(std::string_view line) = nullptr;
  std::int64_t lines_behind = 0;
};

// The rules in the order in which they are asked: the first that reads a line has it.
const std::vector<LogRule>& log_rules();

// For titles: "2.0 MiB", or `otherwise`.
std::string words_for(const std::optional<Bytes>& bytes, std::string_view otherwise = "some memory");

}  // namespace headroom::doctor
