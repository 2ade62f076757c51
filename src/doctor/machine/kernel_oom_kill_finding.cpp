#include <algorithm>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> kernel_oom_kill(const MachineHistory& history) {
  if (history.oom_kills == 0 &&
      std::none_of(history.kernel_events.begin(), history.kernel_events.end(),
                   [](const KernelEvent& event) { return event.kind == KernelEventKind::oom_kill; }))
    return std::nullopt;
  // The counter is the machine's: another group's kills are in it, too.
  const bool is_elsewhere = history.all_kills_were_elsewhere();
  Finding finding = new_finding(
      "kernel-oom-kill", is_elsewhere ? Severity::warning : Severity::severe,
      is_elsewhere ? "The kernel killed a process outside this control group because memory ran out"
                   : "The kernel killed a process because memory ran out",
      is_elsewhere ? "Another control group was at its limit, or the machine was out of memory."
                   : "The machine or a control group was out of memory.");
  for (const KernelEvent& event : history.kernel_events)
    if (event.kind == KernelEventKind::oom_kill) finding.evidence.push_back({"", 0, event.text});
  finding.times = std::max<std::int64_t>(1, history.oom_kills);
  finding.figures = {{"oom_kills", history.oom_kills}};
  if (history.group_oom_kills) finding.figures.push_back({"group_oom_kills", *history.group_oom_kills});
  finding.cures = {
      {"read the kernel's report: how much memory each process held", "dmesg | headroom doctor -", {}},
      {"plan which programs run together, with a reserve", "headroom plan BUDGET.toml", {}}};
  return finding;
}

}  // namespace headroom::doctor
