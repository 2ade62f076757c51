#include "doctor/machine/machine_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"

namespace headroom::doctor {
namespace {

// "one sample", "40 samples over 1.5 min in 2 sessions".
std::string samples_words(const MachineHistory& history) {
  std::string words = history.samples == 1 ? "one sample" : fmt::format("{} samples", history.samples);
  if (history.duration().count > 0) words += " over " + format_duration(history.duration());
  if (history.sessions() > 1) words += fmt::format(" in {} sessions", history.sessions());
  return words;
}

}  // namespace

std::vector<Evidence> moment(const MachineHistory& history, Nanoseconds at, const std::string& what) {
  if (history.duration().count <= 0) return {};
  const std::string when = at.count == 0 ? "in the first" : format_duration(at) + " after the first";
  return {{.text = fmt::format("{}, {} of {}", what, when, samples_words(history))}};
}

std::vector<Evidence> of_session(const MachineHistory& history, const MachineSession& session) {
  return {{.text = fmt::format("{} sample{} of session {} of {}", session.samples,
                               session.samples == 1 ? "" : "s", session.number, history.sessions())}};
}

std::optional<Finding> in_newest_session(
    const MachineHistory& history,
    const std::function<std::optional<Finding>(const MachineSession&, bool is_last)>& look_for) {
  if (auto found = look_for(history.session, true)) return found;
  for (auto session = history.earlier.rbegin(); session != history.earlier.rend(); ++session)
    if (auto found = look_for(*session, false)) {
      found->evidence = of_session(history, *session);
      return found;
    }
  return std::nullopt;
}

std::int64_t share_of(const std::optional<Bytes>& total, std::int64_t percent) {
  return total ? total->count / 100 * percent : 0;
}

std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name) {
  std::vector<Finding> findings;
  for (MachineFinding* look_for : kMachineFindings)
    if (std::optional<Finding> found = look_for(history)) {
      complete_evidence(*found, name, samples_words(history));
      findings.push_back(std::move(*found));
    }
  return findings;
}

std::vector<Finding> findings_during_run(const MachineHistory& history, const std::string& name) {
  // A model that the kernel killed is the report's model-out-of-memory.
  constexpr std::string_view kOfTheRun[] = {"memory-running-out", "memory-grows", "growth-levelled-off",
                                            "throttled", "kernel-oom-kill"};
  std::vector<Finding> findings = machine_findings(history, name);
  std::erase_if(findings, [&](const Finding& finding) {
    return std::find(std::begin(kOfTheRun), std::end(kOfTheRun), finding.id) != std::end(kOfTheRun);
  });
  return findings;
}

}  // namespace headroom::doctor
