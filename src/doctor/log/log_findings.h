// What the lines of logs say, gathered: a finding for each kind of message and its subject.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "doctor/log/announced_kills.h"
#include "doctor/log/log_envelope.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/log_rule.h"
#include "doctor/log/message_groups.h"
#include "doctor/log/oom_report.h"
#include "doctor/log/repeated_messages.h"

namespace headroom::doctor {

// The rule that reads this line, with what it read; nullptr if none does.
const LogRule* rule_of(std::string_view line, LogMessage& message);

// Memory does not grow with the logs (MessageGroups).
class LogFindings {
 public:
  static constexpr std::size_t kMostGroups = MessageGroups::kMostGroups,
                               kMostEvidence = MessageGroups::kMostEvidence, kMostText = 400;

  // Reads a log to its end, and tells how many lines it has; "-" is standard input. On an error what was
  // found before is kept.
  Result<std::int64_t> read_file(const std::string& path);
  // One line. True: the next one is wanted too, whatever it holds.
  bool read_line(const std::string& file, std::int64_t number, std::string_view line);
  // A file ends: so do the kernel's report that may be open, and all that waits for a next line.
  void end_file();
  std::vector<Finding> findings() const;

 private:
  // A message that looks cut: a terminal or a logger broke it.
  struct CutMessage {
    const LogRule* rule = nullptr;
    LogPlace at;  // of its first line
    std::int64_t last_line = 0;
    std::string text;
    int lines = 0;
    std::size_t figures = 0;
    bool is_final = false;
  };
  // Without what loggers put around it; a text of several lines.
  bool read_plain_text(const std::string& file, std::int64_t number, std::string_view text);
  // Of a kill's line that may be broken the next one is waited for.
  bool read_plain_line(const std::string& file, std::int64_t number, std::string_view line);
  bool read_whole_line(const std::string& file, std::int64_t number, std::string_view line);
  void read_behind(const LogPlace& at, std::string_view line);
  bool is_told_again(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                     std::string_view line);
  void read_context(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                    std::string_view line);
  void read_other_contexts(const LogRule& first, std::string_view line);
  void read_message(const LogRule& rule, LogMessage message, const LogPlace& at, std::string_view line);
  // What the program printed before it and by which its cures are computed.
  void add_context(const LogRule& rule, LogMessage& message) const;
  // `own_figures`: those that its line has, without what is known from before.
  bool add(const LogRule& rule, LogMessage message, std::size_t own_figures, const LogPlace& at,
           std::string_view text);
  bool add_joined(const LogRule& rule, LogMessage message, const CutMessage& cut);
  void close_report();
  void take_back_chosen(const LogRule& rule, LogMessage& message, const LogPlace& at);
  // `is_known`: a rule has a word in the line.
  bool joins(const std::string& file, std::int64_t number, std::string_view line, bool is_known);
  void read_retry(const LogPlace& at, std::string_view line, bool tells_failure_too = false);

  ByteLines bytes_;
  OomReport report_;
  AnnouncedKills announced_;
  Evidence report_begin_;
  MessageGroups groups_;
  std::map<std::string_view, LogMessage> context_;  // of the file, by the rule that it goes with
  CutMessage cut_;
  struct BrokenKill {
    LogPlace at;  // of its first line
    std::int64_t last_line = 0;
    std::string text;
  };
  std::optional<BrokenKill> broken_kill_;
  // The last message that figures may follow (LogRule::read_behind), to which line.
  struct Followed {
    const LogRule* rule = nullptr;
    std::string subject, file;
    std::int64_t last_line = 0;
  };
  std::optional<Followed> followed_;
  RepeatedMessages repeated_;
  // Whom an old kernel chose to kill, as the last message said.
  struct Chosen {
    std::string event, constraint;
    LogPlace at;
  };
  std::optional<Chosen> chosen_;
  // The last message, where the program asks for less then.
  struct Refused {
    const LogRule* rule = nullptr;
    Bytes size;
  };
  std::optional<Refused> refused_;
  Traceback traceback_;
  bool waits_for_answer_ = false, answers_itself_ = false;
};

// Names and texts that come from elsewhere go to terminals: without what would steer them.
void clean_findings(std::vector<Finding>& findings);
void clean_trial(TriedCure& tried);

// The severe first; of the same severity those that came first.
void sort_findings(std::vector<Finding>& findings);
// Cures by what they save, behind the one for the cause; those of which nobody knows it stay behind in their
// order.
void sort_cures(Finding& finding);

}  // namespace headroom::doctor
