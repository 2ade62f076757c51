// Findings from the lines of logs: one for each kind of message and its subject.
#pragma once

#include <map>

#include "base/result.h"
#include "doctor/log/announced_kills.h"
#include "doctor/log/log_rule.h"
#include "doctor/log/message_groups.h"
#include "doctor/log/oom_report.h"

namespace headroom::doctor {

// The rule that reads this line, and its message; nullptr if none does.
const LogRule* rule_of(std::string_view line, LogMessage& message);

// Memory does not grow with the size of the logs (MessageGroups).
class LogFindings {
 public:
  static constexpr std::size_t kMostGroups = MessageGroups::kMostGroups,
                               kMostEvidence = MessageGroups::kMostEvidence, kMostText = 400;

  // Reads a log to its end and returns its number of lines; "-" is standard input. After an error, earlier
  // findings are kept.
  Result<std::int64_t> read_file(const std::string& path);
  // Returns true if the next line is needed whatever it contains.
  bool read_line(const std::string& file, std::int64_t number, std::string_view line);
  // Ends a file: closes the kernel's open report and everything that waits for a next line.
  void end_file();
  std::vector<Finding> findings() const;

 private:
  // A message that seems to be cut: a terminal or a logger broke its line.
  struct CutMessage {
    const LogRule* rule = nullptr;
    LogPlace at;  // of its first line
    std::string text;
    std::size_t figures = 0;
    bool is_final = false;
  };
  // The text without what loggers add.
  bool read_plain_line(const std::string& file, std::int64_t number, std::string_view line);
  void read_contexts(const LogPlace& at, std::string_view line, std::string_view only = {});
  void read_message(const LogRule& rule, LogMessage message, const LogPlace& at, std::string_view line);
  // Adds the figures that the program printed earlier.
  void add(const LogRule& rule, LogMessage message, const LogPlace& at, std::string_view text);
  void close_report();
  void take_back_chosen(const LogRule& rule, LogMessage& message, const LogPlace& at);
  bool joins(std::string_view line);
  void read_retry(const LogPlace& at, std::string_view line, bool tells_failure_too = false);

  OomReport report_;
  AnnouncedKills announced_;
  Evidence report_begin_;
  MessageGroups groups_;
  std::map<std::string_view, LogMessage> context_;  // of the file, by the rule that it goes with
  CutMessage cut_;
  // The process that an old kernel chose to kill, from the last message.
  struct Chosen {
    std::string event, constraint;
    LogPlace at;
  };
  std::optional<Chosen> chosen_;
  // The last message of a program that asks again for less.
  struct Refused {
    const LogRule* rule = nullptr;
    Bytes size;
  };
  std::optional<Refused> refused_;
  bool waits_for_answer_ = false, answers_itself_ = false;
};

// Removes terminal control sequences from names and texts of other programs.
void clean_findings(std::vector<Finding>& findings);
void clean_trial(TriedCure& tried);

// By severity; findings of the same severity keep their order.
void sort_findings(std::vector<Finding>& findings);
// By what they save, after the cure of the cause. Cures without a known saving keep their order at the end.
void sort_cures(Finding& finding);

}  // namespace headroom::doctor
