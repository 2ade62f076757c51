// Groups the messages of logs by kind and subject. Each group becomes one finding.
#pragma once

#include <map>

#include "doctor/log/log_rule.h"
#include "doctor/log/recent_kills.h"

namespace headroom::doctor {

struct MessageGroup {
  const LogRule* rule = nullptr;
  std::string key, source;  // in by_key_; the program, if the log contains several
  LogMessage message;       // the one with most figures
  LogMessage last_message;  // of the last event so far
  LogMessage added;         // figures of other lines about the event in `message`
  std::vector<std::string> added_parts;
  bool is_vague = false;  // all of its messages are
  std::int64_t times = 0, went_on = 0;
  std::vector<Evidence> evidence;
  std::size_t first_figures = 0;  // in the line of the first evidence
  LogPlace last;
  std::vector<std::string> parts;  // of the last event so far
  bool last_stands = false;        // the last event is the one in `message`
  bool is_failure = false;
  // Messages without a following retry. After too many lines without one, the program failed.
  std::int64_t unanswered = 0, retries = 0;
  LogPlace first_unanswered;
  std::string unanswered_source, unanswered_process;
  bool failed = false;
  std::optional<Evidence> retry;
};
// Adds a line, if there are fewer than MessageGroups::kMostEvidence.
void keep(std::vector<Evidence>& all, Evidence evidence);

// Memory does not grow with the logs: at most kMostGroups severe groups and as many others, each with
// kMostEvidence lines. A finding reports how many messages were left out.
class MessageGroups {
 public:
  static constexpr std::size_t kMostGroups = 200, kMostEvidence = 3;

  // `may_be_taken_back`: the line may be only a part of a message.
  void add(const LogRule& rule, LogMessage message, const LogPlace& at, std::string_view text,
           bool may_be_taken_back = false);
  // Removes the last message, if it may be taken back and nothing followed it.
  void take_back();

  // A program reports that it tries again with less. True: this may answer an earlier message. If another
  // line follows, the program went on.
  bool retry(const LogPlace& at, std::string_view text);
  void went_on();
  // Also at the end of a file.
  void did_not_go_on() { answered_.clear(); }
  // A program went on without the memory that the last messages of this rule were about.
  void answer(std::string_view rule, const LogPlace& at, std::string_view text);
  // A program ended with a failure: no later line can answer it.
  void ended(const LogPlace& at, std::string_view text);
  // The retry failed.
  void gave_up(const std::string& file);

  // In the order of the log, with cures in the order of the rules.
  std::vector<Finding> findings() const;

 private:
  using Group = MessageGroup;
  Group* group_of(const LogRule& rule, const LogMessage& message, const LogPlace& at, std::string_view text);
  Group* near_group(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                    std::string_view source);
  void set_key(std::size_t group, std::string key);
  void keep_before(const Group& group, bool may_be_taken_back);
  bool is_known_kill(const LogRule& rule, const LogMessage& message, const LogPlace& at) const;
  bool tells_of_kill_again(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                           const Evidence& evidence);
  void add_to_kill(const RecentKill& kill, const LogMessage& message, const Evidence& evidence);
  void add_addition(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                    const Evidence& evidence);
  void note_kill(const LogRule& rule, const LogMessage& message, const LogPlace& at);
  bool tells_of_unit_again(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                           const Evidence& evidence);
  void take_over_told_kill(const RecentKill& kill);
  void drop_told_unit(const LogRule& rule, const std::string& unit, const LogPlace& at);
  bool is_told_better(const Group& group) const;

  std::vector<Group> groups_;
  std::map<std::string, std::size_t, std::less<>> by_key_;
  // The last events by name: a line of another thread may separate two lines of one event.
  struct RecentEvent {
    std::string event;
    std::size_t group = 0;
    LogPlace at;
  };
  static constexpr std::size_t kRecentEvents = 8;
  std::vector<RecentEvent> recent_;
  Group* recent_group(const LogRule& rule, const std::string& event, const LogPlace& at);
  RecentKills kills_, told_kills_;  // reported by the kernel; reported by the victim's starter
  std::size_t last_group_ = 0;
  // The last group before a message that may be taken back. It is kept, so that a copy needs no new memory:
  // a log may consist of such messages.
  Group before_last_;
  bool may_take_back_ = false;
  std::vector<std::size_t> answered_;
  Evidence answer_;
  std::size_t severe_groups_ = 0, other_groups_ = 0;
  std::int64_t left_out_ = 0;
  Evidence first_left_out_;
};

}  // namespace headroom::doctor
