// What the lines of logs say, gathered: a finding for each kind of message and its subject.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "doctor/anchor_search.h"
#include "doctor/log_rule.h"
#include "doctor/oom_report.h"

namespace headroom::doctor {

// The rule that reads this line, with what it read; nullptr if none does.
const LogRule* rule_of(std::string_view line, LogMessage& message);

// Memory does not grow with the logs: at most kMostGroups findings, each with kMostEvidence lines.
class LogFindings {
 public:
  static constexpr std::size_t kMostGroups = 200, kMostEvidence = 3, kMostText = 400;

  LogFindings();
  // Reads a log to its end; "-" is standard input. On an error what was found before is kept.
  Status read_file(const std::string& path);
  // One line. True: the next one is wanted too, whatever it holds.
  bool read_line(const std::string& file, std::int64_t number, std::string_view line);
  // A file ends: so does the kernel's report that may be open.
  void end_file() { report_ = {}; }
  std::vector<Finding> findings() const;

 private:
  struct Group {
    const LogRule* rule = nullptr;
    LogMessage message;
    std::string event;  // the message's
    std::int64_t times = 0;
    std::vector<Evidence> evidence;
  };
  void add(const LogRule& rule, LogMessage message, const std::string& file, std::int64_t number,
           std::string_view line);
  static void add_evidence(Group& group, Evidence evidence, bool first);

  AnchorSearch anchors_;
  OomReport report_;
  std::vector<Group> groups_;  // in the order in which they were seen
  std::map<std::string, std::size_t, std::less<>> by_key_;
  std::string last_event_;
  std::size_t last_group_ = 0;
};

// Names and texts that come from elsewhere go to terminals: without what would steer them.
void clean_findings(std::vector<Finding>& findings);

// The severe first; of the same severity those that came first.
void sort_findings(std::vector<Finding>& findings);
// Cures by what they save; those of which nobody knows it stay behind in their order.
void sort_cures(Finding& finding);

}  // namespace headroom::doctor
