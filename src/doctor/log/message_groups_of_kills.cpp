// Joins the lines of several programs about one kill into one finding, in any order of the lines.
#include <algorithm>
#include <utility>

#include "doctor/log/limit_cures.h"
#include "doctor/log/message_groups.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kOomd = "systemd-oomd";

// The process number in a message, or empty.
std::string process_in(const LogMessage& message) {
  const auto pid = message.number("pid");
  return pid ? std::to_string(*pid) : std::string();
}

// Reported by a daemon or by the program's starter, not by the kernel.
bool tells_as_another(const LogRule& rule) { return rule.from_outside && !rule.is_kernel_kill; }

}  // namespace

// systemd's lines about a unit with a process that the kernel killed, and a shell's or launch file's line
// about the process that it started.
bool MessageGroups::tells_of_kill_again(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                                        const Evidence& evidence) {
  if (rule.repeats_kills && !message.text("unit").empty()) drop_told_unit(rule, message.subject, at);
  if (message.is_of_unit) {
    RecentKill* const kill = kills_.of_unit(message.subject, at);
    if (kill == nullptr) return tells_of_unit_again(rule, message, at, evidence);
    if (kill->unit.empty()) kill->unit = message.subject;
    add_to_kill(*kill, message, evidence);
    return true;
  }
  if (!tells_as_another(rule)) return false;
  const std::string process = process_in(message);
  // An interactive shell prints "Killed" alone.
  const bool is_nameless = process.empty() && message.tells_shell;
  const RecentKill* const kill = is_nameless ? kills_.of_unit({}, at) : kills_.of_process(process, at);
  if (kill != nullptr) keep(groups_[kill->group].evidence, evidence);
  return kill != nullptr;
}

// Further lines about a unit's kill: systemd also reports each slice that contains the unit, and the signal
// that ended its main process; systemd-oomd reports processes before their unit.
bool MessageGroups::tells_of_unit_again(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                                        const Evidence& evidence) {
  const std::string_view unit = message.subject;
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) {
    if (!group->rule->repeats_kills || group->times == 0 || !is_near(group->last, at) ||
        are_apart(group->last.time, at.time))
      continue;
    const std::string told = group->message.text("unit");
    if (group->rule != &rule && !told.empty() && without_service(told) == unit) return true;
    if (group->rule == &rule && rule.repeats_kills && !told.empty() &&
        (is_in_slice(told, unit) || is_in_slice(unit, told))) {
      if (is_in_slice(told, unit)) group->message.set({"unit", std::string(unit)});
      keep(group->evidence, evidence);
      return true;
    }
    if (!rule.repeats_kills && told.empty() && group->message.text("who") == kOomd) {
      group->message.add("unit", unit);
      keep(group->evidence, evidence);
      return true;
    }
  }
  return false;
}

// Removes systemd's line about a unit if the killer's line follows.
void MessageGroups::drop_told_unit(const LogRule& rule, const std::string& unit, const LogPlace& at) {
  const RecentKill* const told = told_kills_.find_last(
      at, [&](const RecentKill& each) { return each.unit == unit && groups_[each.group].rule != &rule; });
  if (told == nullptr) return;
  --groups_[told->group].times;
  told_kills_.remove(told);
}

void MessageGroups::add_to_kill(const RecentKill& kill, const LogMessage& message, const Evidence& evidence) {
  Group& group = groups_[kill.group];
  // The group may contain several kills, and has the figures of one.
  const bool stands = group.message.event == kill.process;
  LogMessage told;
  told.add("unit", message.text("unit"));
  told.add("memory_peak_bytes", message.bytes("memory_peak_bytes"));
  if (stands) group.added.add_absent(told);
  keep(group.evidence, evidence);
}

// "vision.service: Consumed 3min 2.100s CPU time, 6.1G memory peak." belongs to an earlier message about the
// unit. Each service that ends has such a line.
void MessageGroups::add_addition(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                                 const Evidence& evidence) {
  const RecentKill* const kill = kills_.find_last(
      at, [&](const RecentKill& each) { return !each.unit.empty() && each.unit == message.subject; });
  if (kill != nullptr && rule.repeats_kills) {
    add_to_kill(*kill, message, evidence);
    return;
  }
  const auto is_of_it = [&](const Group& group) {
    if (group.times == 0 || !is_near(group.last, at)) return false;
    if (group.rule == &rule)
      return group.message.subject == message.subject ||
             (message.is_vague && group.message.subject.starts_with(message.subject));
    return !message.subject.empty() && group.message.text("who") == kOomd &&
           without_service(group.message.text("unit")) == message.subject;
  };
  Group* last = nullptr;
  for (Group& group : groups_)
    if (is_of_it(group) && (last == nullptr || group.last.line >= last->last.line)) last = &group;
  if (last == nullptr) return;
  // Only the first of each part counts: a second one is of the next container, or of another start of the
  // unit.
  auto& seen = last->added_parts;
  if (is_one_of(message.part, seen)) return;
  seen.push_back(message.part);
  last->added.add_absent(message);
  if (!message.figures.empty()) keep(last->evidence, evidence);
}

// Remembers the kill for later lines about it, and joins earlier ones.
void MessageGroups::note_kill(const LogRule& rule, const LogMessage& message, const LogPlace& at) {
  if (rule.is_kernel_kill && !message.event.empty()) {
    const bool is_known = !message.victim_group.empty();
    RecentKill kill{message.event, is_known ? message.victim_group : message.text("control_group"), at,
                    last_group_};
    take_over_told_kill(kill);
    kills_.add(std::move(kill));
  } else if (tells_as_another(rule)) {
    RecentKill told{process_in(message), {}, at, last_group_};
    if (message.is_of_unit) told.unit = message.subject;
    told.is_by_shell = message.tells_shell;
    if (!told.process.empty() || message.is_of_unit || told.is_by_shell) told_kills_.add(std::move(told));
  }
}

// Another program may have reported it before.
void MessageGroups::take_over_told_kill(const RecentKill& kill) {
  const RecentKill* told = told_kills_.of_process(kill.process, kill.at);
  const auto is_nameless = [](const RecentKill& each) { return each.is_by_shell && each.process.empty(); };
  if (told == nullptr) told = told_kills_.find_last(kill.at, is_nameless);
  if (told == nullptr) return;
  Group& before = groups_[told->group];
  const auto line = std::ranges::find_if(before.evidence, [&](const Evidence& each) {
    return each.file == told->at.file && each.line == told->at.line;
  });
  if (line != before.evidence.end()) {
    keep(groups_[kill.group].evidence, *line);
    before.evidence.erase(line);
  }
  --before.times;
  told_kills_.remove(told);
}

}  // namespace headroom::doctor
