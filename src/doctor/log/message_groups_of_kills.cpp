// What several tell of one kill becomes one finding, in whatever order they do.
#include <algorithm>
#include <string>
#include <utility>

#include "doctor/log/message_groups.h"

namespace headroom::doctor {
namespace {

// The process that a message names by its number; empty if it does not.
std::string process_in(const LogMessage& message) {
  const auto pid = message.number("pid");
  return pid ? std::to_string(*pid) : std::string();
}

// Who started a program tells that it was killed, or a daemon; not the kernel.
bool tells_as_another(const LogRule& rule) { return rule.from_outside && !rule.is_kernel_kill; }

void keep(std::vector<Evidence>& all, const Evidence& evidence) {
  if (all.size() < MessageGroups::kMostEvidence) all.push_back(evidence);
}

}  // namespace

// What systemd says of a unit that the kernel has just killed a process of, and a shell or a launch file of
// the process that it started.
bool MessageGroups::tells_of_kill_again(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                                        const Evidence& evidence) {
  if (kills_.last() == nullptr) return false;
  if (message.is_of_unit) {
    RecentKill* const kill = kills_.of_unit(message.subject, at, time_of(evidence.text));
    if (kill == nullptr) return false;
    if (kill->unit.empty()) kill->unit = message.subject;
    add_to_kill(*kill, message, evidence);
    return true;
  }
  if (!tells_as_another(rule)) return false;
  const RecentKill* const kill = kills_.of_process(process_in(message), at, time_of(evidence.text));
  if (kill == nullptr) return false;
  keep(groups_[kill->group].evidence, evidence);
  return true;
}

void MessageGroups::add_to_kill(const RecentKill& kill, const LogMessage& message, const Evidence& evidence) {
  Group& group = groups_[kill.group];
  // Of several kills in the group the figures are one's.
  const bool stands = group.message.event == kill.process;
  LogMessage told;
  told.add("unit", message.text("unit"));
  told.add("memory_peak_bytes", message.bytes("memory_peak_bytes"));
  if (stands) group.added.add_absent(told);
  keep(group.evidence, evidence);
}

// "vision.service: Consumed 3min 2.100s CPU time, 6.1G memory peak." goes with what was told of the unit
// before, and is nothing of its own: each service that ends has such a line.
void MessageGroups::add_addition(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                                 const Evidence& evidence) {
  const RecentKill* const kill = kills_.told_of(message.subject, at, time_of(evidence.text));
  if (kill != nullptr && rule.repeats_kills) {
    add_to_kill(*kill, message, evidence);
    return;
  }
  const auto is_of_it = [&](const Group& group) {
    return group.rule == &rule && group.times > 0 && is_near(group.last, at) &&
           group.message.subject == message.subject;
  };
  const auto found = std::find_if(groups_.rbegin(), groups_.rend(), is_of_it);
  if (found != groups_.rend()) add_figures_of(*found, message, evidence);
}

// Of each part the first: what follows is of the next container, or of another start of the unit.
void MessageGroups::add_figures_of(Group& group, const LogMessage& message, const Evidence& evidence) {
  auto& seen = group.added_parts;
  if (std::find(seen.begin(), seen.end(), message.part) != seen.end()) return;
  seen.push_back(message.part);
  group.added.add_absent(message);
  if (!message.figures.empty()) keep(group.evidence, evidence);
}

// For the lines that tell of it later; and those that told of it before come to it.
void MessageGroups::note_kill(const LogRule& rule, const LogMessage& message, const LogPlace& at,
                              const Evidence& evidence) {
  if (rule.is_kernel_kill && !message.event.empty()) {
    std::string path = message.victim_group.empty() ? message.text("control_group") : message.victim_group;
    const RecentKill kill{message.event, std::move(path), at, time_of(evidence.text), last_group_, {}};
    kills_.add(kill);
    take_over_told_kill(kill);
  } else if (tells_as_another(rule) && !process_in(message).empty()) {
    told_kills_.add({process_in(message), {}, at, time_of(evidence.text), last_group_, {}});
  }
}

void MessageGroups::take_over_told_kill(const RecentKill& kill) {
  const RecentKill* const told = told_kills_.of_process(kill.process, kill.at, kill.time);
  if (told == nullptr) return;
  Group& group = groups_[told->group];
  const auto line = std::find_if(group.evidence.begin(), group.evidence.end(), [&](const Evidence& each) {
    return each.file == told->at.file && each.line == told->at.line;
  });
  if (line != group.evidence.end()) {
    keep(groups_[kill.group].evidence, *line);
    group.evidence.erase(line);
  }
  --group.times;
  told_kills_.remove(told);
}

}  // namespace headroom::doctor
