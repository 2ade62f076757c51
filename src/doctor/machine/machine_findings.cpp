#include "doctor/machine/machine_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

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
  return {{"", 0,
           fmt::format("{}, {} of {}", what,
                       at.count == 0 ? "in the first" : format_duration(at) + " after the first",
                       samples_words(history))}};
}

std::vector<Evidence> of_session(const MachineHistory& history, const MachineSession& session) {
  return {{"", 0,
           fmt::format("{} sample{} of session {} of {}", session.samples, session.samples == 1 ? "" : "s",
                       session.number, history.sessions())}};
}

std::int64_t share_of(const std::optional<Bytes>& total, std::int64_t percent) {
  return total ? total->count / 100 * percent : 0;
}

std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name) {
  std::vector<Finding> findings;
  for (const MachineFinding look_for : machine_finding_list()) {
    std::optional<Finding> found = look_for(history);
    if (!found) continue;
    if (found->evidence.empty()) found->evidence.push_back({"", 0, samples_words(history)});
    for (Evidence& evidence : found->evidence) evidence.file = name;
    findings.push_back(std::move(*found));
  }
  return findings;
}

std::vector<Finding> findings_during_run(const MachineHistory& history, const std::string& name) {
  // A model that the kernel killed is the report's model-out-of-memory.
  constexpr std::array<std::string_view, 5> kOfTheRun = {
      "memory-running-out", "memory-grows", "growth-levelled-off", "throttled", "kernel-oom-kill"};
  std::vector<Finding> findings = machine_findings(history, name);
  std::erase_if(findings, [&](const Finding& finding) {
    return std::find(kOfTheRun.begin(), kOfTheRun.end(), finding.id) != kOfTheRun.end();
  });
  return findings;
}

}  // namespace headroom::doctor
