// Findings about the growth of a machine's memory.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/machine/machine_finding.h"
#include "monitoring/series_growth.h"

namespace headroom::doctor {
namespace {

bool grows_much(const MachineSession& session) {
  constexpr double kLongEnough = 60;
  return session.seconds_left.value ||
         (session.growing_for.seconds() >= kLongEnough &&
          session.grown() > static_cast<double>(share_of(session.ram_total, 2)));
}

// The session with the worst growth.
const MachineSession* worst_session(const MachineHistory& history) {
  const MachineSession* worst = grows_much(history.session) ? &history.session : nullptr;
  for (const MachineSession& session : history.earlier)
    if (grows_much(session) && (!worst || session.is_worse_than(*worst))) worst = &session;
  return worst;
}

std::string title_of_growth(const MachineSession& session, bool goes_on) {
  const auto& left = session.seconds_left.value;
  if (!left)
    return fmt::format("Memory {} steadily, by {} per hour", goes_on ? "grows" : "grew",
                       format_bytes({static_cast<std::int64_t>(*session.growth_per_hour.value)}));
  return fmt::format("At this growth, {} {} be exhausted {} after the end of {}",
                     session.seconds_left.detail.empty() ? "memory" : session.seconds_left.detail,
                     goes_on ? "will" : "would",
                     format_duration({static_cast<std::int64_t>(std::min(*left, 1e9) * 1e9)}),
                     goes_on ? "these samples" : "a session");
}

void add_fastest_process(const MachineSession& session, Finding& finding) {
  const auto most =
      std::max_element(session.processes.begin(), session.processes.end(),
                       [](const auto& a, const auto& b) { return a.second.grown() < b.second.grown(); });
  if (most == session.processes.end() || most->second.grown().count <= 0) {
    finding.cures.push_back(
        {"find out which process grows", "headroom watch --processes 10 --output watch.jsonl"});
    return;
  }
  const std::string& name = most->first.name;
  const Bytes grown = most->second.grown();
  // If one process has most of the growth, the leak is its own.
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

// Steady growth, with the time left if it is at most twice the observed time.
std::optional<Finding> memory_running_out(const MachineHistory& history) {
  const MachineSession* session = worst_session(history);
  if (session == nullptr) return std::nullopt;
  const auto &left = session->seconds_left.value, &per_hour = session->growth_per_hour.value;
  const bool goes_on = session == &history.session;
  constexpr double kSoon = 3600;
  Finding finding{.id = left ? "memory-running-out" : "memory-grows",
                  .severity = left && *left < kSoon ? Severity::severe : Severity::warning,
                  .title = title_of_growth(*session, goes_on),
                  .cause = "Memory in use grows steadily: a leak, an unbounded cache, or a log in memory.",
                  .confidence = Confidence::likely};
  if (!goes_on) finding.evidence = of_session(history, *session);
  if (left) finding.figures.push_back({"left_seconds", *left});
  if (per_hour) finding.figures.push_back({"growth_per_hour_bytes", static_cast<std::int64_t>(*per_hour)});
  add_fastest_process(*session, finding);
  return finding;
}

std::optional<Finding> growth_levelled_off(const MachineHistory& history) {
  return in_newest_session(history, [](const MachineSession& session, bool) -> std::optional<Finding> {
    if (session.seconds_left.value || session.growth_per_hour.value.value_or(0) > 0) return std::nullopt;
    const double least = static_cast<double>(std::max(share_of(session.ram_total, 2), mebibytes(64).count));
    const auto growth = monitoring::growth_of(session.at, session.used, least);
    if (growth.growth != monitoring::Growth::grew_then_stayed) return std::nullopt;
    const auto [low, high] = std::minmax_element(session.used.begin(), session.used.end());
    return Finding{
        .id = "growth-levelled-off",
        .severity = Severity::note,
        .title = fmt::format("Memory grew by {} and then stayed the same", format_bytes({*high - *low})),
        .cause = "Arenas, caches or pools filled up. These samples show no leak.",
        .confidence = Confidence::likely,
        .figures = {{"growth_bytes", *high - *low}}};
  });
}

}  // namespace headroom::doctor
