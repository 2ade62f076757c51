#include <fmt/format.h>

#include <algorithm>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {
namespace {

bool is_told(const MachineSession& session) {
  constexpr double kLongEnough = 60;
  const bool is_much = session.growing_for.seconds() >= kLongEnough &&
                       session.grown() > static_cast<double>(share_of(session.ram_total, 2));
  return session.seconds_left.value || is_much;
}

// Of several sessions the one in which it is worst.
const MachineSession* told_session(const MachineHistory& history) {
  const MachineSession* worst = is_told(history.session) ? &history.session : nullptr;
  for (const MachineSession& session : history.earlier)
    if (is_told(session) && (!worst || session.is_worse_than(*worst))) worst = &session;
  return worst;
}

std::string title_of(const MachineSession& session, bool goes_on) {
  const auto& left = session.seconds_left.value;
  if (!left)
    return fmt::format("Memory {} steadily, by {} per hour", goes_on ? "grows" : "grew",
                       format_bytes({static_cast<std::int64_t>(*session.growth_per_hour.value)}));
  const std::string memory = session.seconds_left.detail.empty() ? "memory" : session.seconds_left.detail;
  const auto in = Nanoseconds{static_cast<std::int64_t>(std::min(*left, 1e9) * 1e9)};
  return goes_on ? fmt::format("At this growth, {} will be exhausted {} after the end of these samples",
                               memory, format_duration(in))
                 : fmt::format("At this growth, {} would be exhausted {} after the end of a session", memory,
                               format_duration(in));
}

// Whose growth it is, where most of it is one process'.
void add_process(const MachineSession& session, Finding& finding) {
  const auto most =
      std::max_element(session.processes.begin(), session.processes.end(),
                       [](const auto& a, const auto& b) { return a.second.grown() < b.second.grown(); });
  if (most == session.processes.end() || most->second.grown().count <= 0) {
    finding.cures.push_back(
        {"find out which process grows", "headroom watch --processes 10 --output watch.jsonl", {}});
    return;
  }
  const std::string& name = most->first.name;
  const Bytes grown = most->second.grown();
  // A leak of a process, where most of the growth is its own.
  if (2 * static_cast<double>(grown.count) >= session.grown() && session.grown() > 0) {
    finding.title += fmt::format("; most of the growth is in {}", name);
    finding.figures.push_back({"level", "process"});
  }
  finding.figures.push_back({"fastest_process", name});
  finding.figures.push_back({"fastest_process_growth_bytes", grown.count});
  finding.cures.push_back(
      {fmt::format("examine {}, which grew most", name), "headroom trace -- COMMAND", grown});
}

}  // namespace

// Steady growth, with the time that is left where it can be told: not further ahead than twice what was seen.
std::optional<Finding> memory_running_out(const MachineHistory& history) {
  const MachineSession* session = told_session(history);
  if (session == nullptr) return std::nullopt;
  const auto &left = session->seconds_left.value, &per_hour = session->growth_per_hour.value;
  const bool goes_on = session == &history.session;
  constexpr double kSoon = 3600;
  Finding finding = new_finding(
      left ? "memory-running-out" : "memory-grows",
      left && *left < kSoon ? Severity::severe : Severity::warning, title_of(*session, goes_on),
      "Memory in use grows steadily: a leak, an unbounded cache, or a log in memory.", Confidence::likely);
  if (!goes_on) finding.evidence = of_session(history, *session);
  if (left) finding.figures.push_back({"left_seconds", *left});
  if (per_hour) finding.figures.push_back({"growth_per_hour_bytes", static_cast<std::int64_t>(*per_hour)});
  add_process(*session, finding);
  return finding;
}

}  // namespace headroom::doctor
