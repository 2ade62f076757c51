#include "doctor/log/message_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

void insert_evidence(std::vector<Evidence>& all, Evidence evidence, bool first) {
  if (first) {
    all.insert(all.begin(), std::move(evidence));
    if (all.size() > MessageGroups::kMostEvidence) all.pop_back();
  } else {
    keep(all, std::move(evidence));
  }
}

// Whether these are two processes. An unknown process may be any.
bool are_two(std::string_view process, std::string_view other) {
  return !process.empty() && !other.empty() && process != other;
}

// "345.72 MiB" is 362,517,888 bytes rounded.
bool same_size(const LogMessage& a, const LogMessage& b) {
  const auto one = a.bytes("requested_bytes"), other = b.bytes("requested_bytes");
  if (!one || !other) return true;
  const double difference = static_cast<double>(one->count) - static_cast<double>(other->count);
  return std::abs(difference) <= 0.01 * static_cast<double>(std::max(one->count, other->count));
}

// More figures, or a larger victim of a kill.
bool tells_more(const LogMessage& message, const LogMessage& other) {
  if (message.figures.size() != other.figures.size()) return message.figures.size() > other.figures.size();
  for (const char* size : {"anonymous_bytes", "resident_bytes"}) {
    const auto held = message.bytes(size), of_other = other.bytes(size);
    if (held && of_other) return *held > *of_other;
  }
  return false;
}

// Adds the figures of another line of the event.
void add_figures(LogMessage& message, const LogMessage& part) {
  if (const auto exact = part.bytes("requested_bytes"); exact && message.is_rounded && !part.is_rounded) {
    message.set({"requested_bytes", exact->count});
    message.is_rounded = false;
  }
  message.add_absent(part);
}

bool is_another_part(const MessageGroup& group, const LogMessage& message, const LogPlace& at) {
  return !message.part.empty() && !group.parts.empty() && is_near(group.last, at) &&
         !is_one_of(message.part, group.parts) && same_size(group.message, message);
}

void count_unanswered(MessageGroup& group, const LogPlace& at, std::string_view text) {
  const std::string_view source = source_of(text), process = process_of(text);
  if (group.unanswered > 0 && (!is_near(group.first_unanswered, at) || source != group.unanswered_source ||
                               are_two(process, group.unanswered_process)))
    group.failed = true;
  if (group.unanswered++ > 0) return;
  group.first_unanswered = at;
  group.unanswered_source = source;
  group.unanswered_process = process;
}

// Another line of the last event. If it has more figures than the first line, it becomes the first evidence;
// the kernel's lines keep their order.
void add_line(MessageGroup& group, const LogMessage& message, Evidence evidence) {
  bool is_first = false;
  if (group.last_message.event == message.event || message.event.empty()) {
    add_figures(group.last_message, message);
    if (group.last_stands) {
      is_first = message.event.empty() && message.figures.size() > group.first_figures;
      add_figures(group.message, message);
    } else if (tells_more(group.last_message, group.message)) {
      group.message = group.last_message;
      group.last_stands = is_first = true;
    }
  }
  if (is_first) group.first_figures = message.figures.size();
  insert_evidence(group.evidence, std::move(evidence), is_first);
}

// The program and process that wrote a line, if known.
struct Speaker {
  std::string_view source, process;
};

// Near the message, and not of another program or, after a restart, another process. The speaker is read once
// a line: a log may consist of lines about ends, and each is compared with hundreds of groups.
bool is_unanswered_by(const MessageGroup& group, const LogPlace& at, const Speaker& speaker) {
  if (group.unanswered == 0 || !is_near(group.first_unanswered, at)) return false;
  if (are_two(speaker.process, group.unanswered_process)) return false;
  return speaker.source.empty() || speaker.source == group.unanswered_source;
}

void set_answered(MessageGroup& group, Evidence answer) {
  group.unanswered = 0;
  ++group.retries;
  group.retry = std::move(answer);
}

Finding finding_of(const MessageGroup& group) {
  LogMessage message = group.message;
  message.add_absent(group.added);
  Finding finding = group.rule->explain(message);
  finding.times = group.times;
  finding.evidence = group.evidence;
  finding.figures = message.figures;
  if (!group.retry) {
    if (group.went_on == 0 || group.failed || group.unanswered > 0 || finding.severity != Severity::severe)
      return finding;
    finding.severity = Severity::warning;
    finding.title += "; the program continued without it";
    return finding;
  }
  finding.figures.push_back({"retries", group.retries});
  if (finding.evidence.size() >= MessageGroups::kMostEvidence) finding.evidence.pop_back();
  finding.evidence.push_back(*group.retry);
  if (group.failed || group.unanswered > 0) {
    finding.cause =
        "The program retried with a smaller size, but not every retry succeeded. " + finding.cause;
  } else if (finding.severity == Severity::severe) {
    finding.severity = Severity::warning;
    finding.title += "; the program retried with a smaller size and continued";
  }
  return finding;
}

// Whether lines of the two groups are near each other.
bool are_near(const MessageGroup& a, const MessageGroup& b) {
  const auto places_of = [](const MessageGroup& group) {
    std::vector<LogPlace> places{group.last};
    for (const Evidence& line : group.evidence) places.push_back({line.file, line.line});
    return places;
  };
  const auto of_a = places_of(a), of_b = places_of(b);
  return std::ranges::any_of(of_a, [&](const LogPlace& one) {
    return std::ranges::any_of(
        of_b, [&](const LogPlace& other) { return is_near(one, other) && is_near(other, one); });
  });
}

}  // namespace

void keep(std::vector<Evidence>& all, Evidence evidence) {
  if (all.size() < MessageGroups::kMostEvidence) all.push_back(std::move(evidence));
}

void MessageGroups::set_key(std::size_t group, std::string key) {
  by_key_.erase(groups_[group].key);
  by_key_[key] = group;
  groups_[group].key = std::move(key);
}

// A vague message joins the last group that fits, and a message with a subject joins a vague group before it.
MessageGroups::Group* MessageGroups::near_group(const LogRule& rule, const LogMessage& message,
                                                const LogPlace& at, std::string_view source) {
  Group* last = nullptr;
  for (Group& group : groups_) {
    if (!message.is_vague && !group.is_vague) continue;
    if (group.rule != &rule || group.times == 0 || !is_near(group.last, at) || group.source != source)
      continue;
    const std::string &subject = message.subject, &known = group.message.subject;
    const bool is_begin_of_it = group.is_vague && subject.starts_with(known);
    const bool goes_with =
        message.is_vague ? known.starts_with(subject) || (is_begin_of_it && !known.empty()) : is_begin_of_it;
    if (goes_with && (last == nullptr || group.last.line >= last->last.line)) last = &group;
  }
  return last;
}

MessageGroups::Group* MessageGroups::group_of(const LogRule& rule, const LogMessage& message,
                                              const LogPlace& at, std::string_view text) {
  // Two programs of one log fail for different reasons. A message from outside names its victim.
  const std::string_view source = rule.from_outside ? std::string_view() : source_of(text);
  std::string key = fmt::format("{}\n{}\n{}\n{}\n{}", rule.name, message.subject, message.text("constraint"),
                                message.text("control_group"), source);
  auto found = by_key_.find(key);
  if (message.is_vague || found == by_key_.end()) {
    if (Group* const near = near_group(rule, message, at, source)) {
      last_group_ = static_cast<std::size_t>(near - groups_.data());
      // The group now belongs to this subject: a pod's container, not the next container.
      const bool tells_whose =
          !near->message.subject.empty() && message.subject.starts_with(near->message.subject);
      if (tells_whose) near->message.subject = message.subject;
      if (!message.is_vague) set_key(last_group_, std::move(key));
      return near;
    }
  }
  if (found == by_key_.end()) {
    const Finding finding = rule.explain(message);
    // Severe groups have their own limit: hundreds of warnings must not hide them.
    std::size_t& kept = finding.severity == Severity::severe ? severe_groups_ : other_groups_;
    if (kept >= kMostGroups) return nullptr;
    ++kept;
    found = by_key_.emplace(key, groups_.size()).first;
    Group group;
    group.rule = &rule;
    group.key = std::move(key);
    group.source = source;
    group.is_vague = message.is_vague;
    group.is_failure = finding.severity == Severity::severe && !rule.is_not_of_memory;
    groups_.push_back(std::move(group));
  }
  last_group_ = found->second;
  return &groups_[last_group_];
}

MessageGroups::Group* MessageGroups::recent_group(const LogRule& rule, const std::string& event,
                                                  const LogPlace& at) {
  if (event.empty()) return nullptr;
  for (const RecentEvent& recent : recent_)
    if (recent.event == event && groups_[recent.group].rule == &rule && is_near(recent.at, at))
      return &groups_[recent.group];
  return nullptr;
}

void MessageGroups::keep_before(const Group& group, bool may_be_taken_back) {
  may_take_back_ = may_be_taken_back;
  if (may_take_back_) before_last_ = group;
}

bool MessageGroups::is_known_kill(const LogRule& rule, const LogMessage& message, const LogPlace& at) const {
  if (message.event.empty() || !rule.is_kernel_kill) return kills_.last() && is_near(kills_.last()->at, at);
  return std::ranges::any_of(groups_, [&](const Group& group) {
    return group.rule == &rule && group.times > 0 && is_near(group.last, at) &&
           group.message.text("victim") == message.text("victim");
  });
}

void MessageGroups::add(const LogRule& rule, LogMessage message, const LogPlace& at, std::string_view text,
                        bool may_be_taken_back) {
  may_take_back_ = false;
  Evidence evidence{at.file, at.line, std::string(text)};
  // The line may add nothing, or only figures of an earlier message.
  if (message.is_echo && is_known_kill(rule, message, at)) return;
  if (message.is_addition) return add_addition(rule, message, at, evidence);
  if (tells_of_kill_again(rule, message, at, evidence)) return;
  // The kernel prints two or three lines for a kill, of which one says whether a control group was full.
  if (Group* const same = recent_group(rule, message.event, at)) {
    kills_.add_control_group(message.event, message.victim_group);
    keep_before(*same, may_be_taken_back);
    last_group_ = static_cast<std::size_t>(same - groups_.data());
    add_line(*same, message, std::move(evidence));
    return;
  }
  Group* const group = group_of(rule, message, at, text);
  if (group == nullptr) {
    if (left_out_++ == 0) first_left_out_ = std::move(evidence);
    return;
  }
  keep_before(*group, may_be_taken_back);
  if (!message.event.empty()) {
    if (recent_.size() >= kRecentEvents) recent_.erase(recent_.begin());
    recent_.push_back({message.event, last_group_, at});
  }
  if (message.is_final) group->failed = true;
  const bool is_part = is_another_part(*group, message, at);
  group->last = at;
  if (is_part) {
    if (group->last_message.goes_on && !message.goes_on) {  // the program ended after all
      group->last_message.goes_on = false;
      --group->went_on;
      count_unanswered(*group, at, text);
    }
    group->parts.push_back(message.part);
    add_line(*group, message, std::move(evidence));
    return;
  }
  group->parts.clear();
  if (!message.part.empty()) group->parts.push_back(message.part);
  if (message.goes_on)
    ++group->went_on;
  else
    count_unanswered(*group, at, text);
  // The message with most figures represents the group, and its line comes first.
  group->last_stands = ++group->times == 1 || tells_more(message, group->message);
  group->is_vague = message.is_vague && (group->times == 1 || group->is_vague);
  insert_evidence(group->evidence, std::move(evidence), group->last_stands);
  if (group->last_stands) {
    group->first_figures = message.figures.size();
    group->message = message;
    group->added = {};
    group->added_parts.clear();
  }
  note_kill(rule, message, at);
  group->last_message = std::move(message);
}

void MessageGroups::take_back() {
  if (!std::exchange(may_take_back_, false)) return;
  if (!recent_.empty() && recent_.back().group == last_group_) recent_.pop_back();
  if (kills_.last() != nullptr && kills_.last()->group == last_group_) kills_.remove(kills_.last());
  set_key(last_group_, before_last_.key);
  std::swap(groups_[last_group_], before_last_);
}

void MessageGroups::ended(const LogPlace& at, std::string_view text) {
  const Speaker speaker{source_of(text), process_of(text)};
  const bool is_of_another = tells_end_of_another(text);
  for (Group& group : groups_) {
    // A message without a name may be of the program that ended.
    const bool is_nameless = group.unanswered_source.empty() && group.unanswered_process.empty();
    if (is_unanswered_by(group, at, is_of_another && is_nameless ? Speaker{} : speaker)) group.failed = true;
  }
}

bool MessageGroups::retry(const LogPlace& at, std::string_view text) {
  answered_.clear();
  const Speaker speaker{source_of(text), process_of(text)};
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (!group.rule->from_outside && !group.failed && is_unanswered_by(group, at, speaker))
      answered_.push_back(i);
  }
  answer_ = {at.file, at.line, std::string(text)};
  return !answered_.empty();
}

void MessageGroups::went_on() {
  for (const std::size_t i : answered_) set_answered(groups_[i], answer_);
  answered_.clear();
}

void MessageGroups::answer(std::string_view rule, const LogPlace& at, std::string_view text) {
  const Speaker speaker{source_of(text), process_of(text)};
  for (Group& group : groups_) {
    // A final failure has no answer.
    if (group.rule->name == rule && !group.failed && group.is_failure && is_unanswered_by(group, at, speaker))
      set_answered(group, {at.file, at.line, std::string(text)});
  }
}

void MessageGroups::gave_up(const std::string& file) {
  answered_.clear();
  for (Group& group : groups_)
    if (group.retry && group.retry->file == file) group.failed = true;
}

// The same program reports the failure near this line in its own words.
bool MessageGroups::is_told_better(const Group& group) const {
  const auto is_it = [&](const Group& other) {
    return other.rule->name == group.rule->told_better_by && other.times > 0 && other.is_failure &&
           other.source == group.source && are_near(group, other) &&
           !are_two(process_of(other.evidence.front().text), process_of(group.evidence.front().text));
  };
  return !group.rule->told_better_by.empty() && std::ranges::any_of(groups_, is_it);
}

std::vector<Finding> MessageGroups::findings() const {
  std::vector<Finding> findings;
  std::vector<const Group*> told, failed;
  for (const Group& group : groups_) {
    if (group.times == 0 || is_told_better(group)) continue;  // taken back, or in another group
    findings.push_back(finding_of(group));
    told.push_back(&group);
    const bool is_severe = group.is_failure && findings.back().severity == Severity::severe;
    if (is_severe && !group.rule->waits_for_failure) failed.push_back(&group);
  }
  // An NvMap error alone may be harmless; with a failure near it, it is the same event.
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const auto is_beside = [&](const Group* other) { return are_near(*told[i], *other); };
    if (!told[i]->rule->waits_for_failure || std::ranges::none_of(failed, is_beside)) continue;
    findings[i].severity = Severity::severe;
    findings[i].confidence = Confidence::likely;
    findings[i].cause.insert(
        0, "Another allocation failed near this line in the same log, so this is probably its cause. ");
  }
  if (left_out_ > 0) {
    findings.push_back(
        {.id = "messages-left-out",
         .severity = Severity::note,
         .title = fmt::format("Headroom did not keep {} more messages of other kinds or other programs",
                              left_out_),
         .cause =
             fmt::format("Headroom keeps at most {0} severe findings of logs and {0} others.", kMostGroups),
         .times = left_out_,
         .evidence = {first_left_out_}});
  }
  return findings;
}

}  // namespace headroom::doctor
