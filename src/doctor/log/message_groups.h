// The messages of logs, gathered: a group for each kind and subject, of which one finding is made.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/log/log_place.h"
#include "doctor/log/log_rule.h"
#include "doctor/log/pod_names.h"
#include "doctor/log/recent_kills.h"

namespace headroom::doctor {

// Memory does not grow with the logs: at most kMostGroups severe groups and as many others, each with
// kMostEvidence lines. What is left out is told as a finding.
class MessageGroups {
 public:
  static constexpr std::size_t kMostGroups = 200, kMostEvidence = 3;
  static constexpr std::int64_t kNear = kNearLines;

  // What may be taken back is only the begin of a message, or half of one. False: it was left out.
  bool add(const LogRule& rule, LogMessage message, const LogPlace& at, std::string_view text,
           bool may_be_taken_back = false);
  // Another line of the last one that was added.
  void add_evidence(const LogPlace& at, std::string_view text);
  // The last one that was added, if it may be, and nothing since.
  void take_back();

  // A program tells that it tries again with less. Whether that may answer a message before it; if it does,
  // and a line follows, the program went on.
  bool retry(const LogPlace& at, std::string_view text);
  void went_on();
  void did_not_go_on() { answered_.clear(); }
  // A program did without what the last messages of this rule told that it lacked.
  void answer(std::string_view rule, const LogPlace& at, std::string_view text);
  // A program ended with a failure, which no later line can answer.
  void ended(const LogPlace& at, std::string_view text);
  // It did not help.
  void gave_up(const std::string& file);
  // The file ends: what was not told to go on did not.
  void end_file() { did_not_go_on(); }

  // In the order in which they were seen; the cures as the rules have them.
  std::vector<Finding> findings() const;

 private:
  struct Group {
    const LogRule* rule = nullptr;
    std::string key, source;  // in by_key_; which of several programs it is of, where the log tells
    LogMessage message;       // the one that tells most
    LogMessage last_message;  // of the last event, as far as its lines were seen
    LogMessage added;         // what others told of the event in `message`
    std::vector<std::string> added_parts;
    bool is_vague = false;  // all of its messages are
    std::int64_t times = 0, went_on = 0;
    std::vector<Evidence> evidence;
    std::size_t first_figures = 0;  // that the line of the first evidence tells
    LogPlace last;
    std::vector<std::string> parts;  // of the last event that were seen
    bool last_stands = false;        // the last event is the one in `message`
    bool is_failure = false, beside_failure = false;
    // How many were not followed by a retry; once one was not for too long it failed.
    std::int64_t unanswered = 0, retries = 0;
    LogPlace first_unanswered;
    std::string unanswered_source, unanswered_process;
    bool failed = false;
    std::optional<Evidence> retry;
  };
  Group* group_of(const LogRule& rule, const LogMessage& message, const LogPlace& at, std::string_view text);
  Group* near_group(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                    std::string_view source);
  void set_key(std::size_t group, std::string key);
  void read_names(const LogMessage& names, const LogPlace& at);
  static void add_line(Group& group, const LogMessage& message, Evidence evidence);
  static void add_part(Group& group, const LogMessage& part, Evidence evidence);
  void keep_before(const Group& group, bool may_be_taken_back);
  bool is_known_kill(const LogRule& rule, const LogMessage& message, const LogPlace& at) const;
  bool is_of_known_event(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                         const Evidence& evidence);
  bool tells_of_kill_again(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                           const Evidence& evidence);
  void add_to_kill(const RecentKill& kill, const LogMessage& message, const Evidence& evidence);
  void add_addition(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                    const Evidence& evidence);
  static void add_figures_of(Group& group, const LogMessage& message, const Evidence& evidence);
  void note_kill(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                 const Evidence& evidence);
  bool tells_of_unit_again(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                           const Evidence& evidence);
  void prefer_larger_victim(const LogMessage& message, const Evidence& evidence);
  bool take_over_told_kill(const RecentKill& kill);
  void drop_told_unit(const LogRule& rule, const std::string& unit, const LogPlace& at,
                      const std::optional<LogTime>& time);
  Group* whole_of(const LogRule& rule, const LogMessage& part, const LogPlace& at);
  void take_over_part(const LogRule& rule, const LogMessage& message, const LogPlace& at);
  void take_over(const RecentKill& told, Group& group);
  static bool is_another_part(const Group& group, const LogMessage& message, const LogPlace& at);
  static void count_unanswered(Group& group, const LogPlace& at, std::string_view text);
  // Who says a line, as far as it tells.
  struct Speaker {
    std::string_view source, process;
  };
  static Speaker speaker_of(std::string_view text);
  static bool is_unanswered_by(const Group& group, const LogPlace& at, const Speaker& speaker);
  void look_beside(Group& group, const LogPlace& at);
  static bool tells_better(const Group& other, const Group& group);
  bool is_told_better(const Group& group) const;
  void make_severe_beside_failure(const Group& group, Finding& finding) const;
  static Finding finding_of(const Group& group);

  std::vector<Group> groups_;
  std::map<std::string, std::size_t, std::less<>> by_key_;
  // The last events, by their names: another thread's line may stand between two of one event.
  struct RecentEvent {
    std::string event;
    std::size_t group = 0;
    LogPlace at;
  };
  static constexpr std::size_t kRecentEvents = 8;
  std::vector<RecentEvent> recent_;
  Group* recent_group(const LogRule& rule, const std::string& event, const LogPlace& at);
  RecentKills kills_, told_kills_;  // by the kernel; as those tell who started the victim
  PodNames names_;
  std::size_t last_group_ = 0;
  // The last group as it was before a message that may be taken back. It stays where it is when there is
  // none, so that a copy needs no memory: a log may be nothing but such messages.
  Group before_last_;
  bool may_take_back_ = false;
  std::vector<std::size_t> answered_;
  Evidence answer_;
  // Of what is no alarm unless something failed near it (LogRule::waits_for_failure).
  std::optional<LogPlace> last_failure_, last_waiting_;
  std::size_t waiting_group_ = 0;
  std::size_t severe_groups_ = 0, other_groups_ = 0;
  std::int64_t left_out_ = 0;
  Evidence first_left_out_;
};

}  // namespace headroom::doctor
