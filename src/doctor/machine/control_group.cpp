// Findings about a control group at its limit, and about the kernel's OOM killer.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"

namespace headroom::doctor {

std::optional<Finding> kernel_oom_kill(const MachineHistory& history) {
  std::vector<Evidence> kills;
  for (const KernelEvent& event : history.kernel_events)
    if (event.kind == KernelEventKind::oom_kill) kills.push_back({.text = event.text});
  if (history.oom_kills == 0 && kills.empty()) return std::nullopt;
  // The machine's counter includes kills in other control groups.
  const bool is_elsewhere = history.all_kills_were_elsewhere();
  Finding finding{
      .id = "kernel-oom-kill",
      .severity = is_elsewhere ? Severity::warning : Severity::severe,
      .title = is_elsewhere ? "The kernel killed a process outside this control group because memory ran out"
                            : "The kernel killed a process because memory ran out",
      .cause = is_elsewhere ? "Another control group was at its limit, or the machine was out of memory."
                            : "The machine or a control group was out of memory.",
      .times = std::max<std::int64_t>(1, history.oom_kills),
      .evidence = std::move(kills),
      .figures = {{"oom_kills", history.oom_kills}},
      .cures = {{"read the kernel's report: how much memory each process held", "dmesg | headroom doctor -"},
                {"plan which programs run together, with a reserve", "headroom plan BUDGET.toml"}}};
  if (history.group_oom_kills) finding.figures.push_back({"group_oom_kills", *history.group_oom_kills});
  return finding;
}

// Reading a dataset again and again through a full cache looks the same, at the pace of a disk: a warning.
std::optional<Finding> control_group_thrash(const MachineHistory& history) {
  if (history.group_thrashed < kLeastThrash) return std::nullopt;
  constexpr double kPaceOfDisks = 25'000, kWaiting = 0.05;  // pages a second: 100 MiB
  const bool is_severe = history.most_group_pages >= kPaceOfDisks && history.most_group_waiting >= kWaiting;
  const Bytes limit = history.thrashed_group_limit;
  // Twice the limit is a first try: the samples show that the files need more room, but not how much.
  const std::int64_t size = 2 * limit.count / mebibytes(1).count;
  return Finding{.id = "control-group-thrash",
                 .severity = is_severe ? Severity::severe : Severity::warning,
                 .title = fmt::format(
                     "At its limit of {}, the control group re-read up to {:.0f} pages per second, for {}",
                     format_bytes(limit), history.most_group_pages, format_duration(history.group_thrashed)),
                 .cause =
                     "Its working set, such as mapped weights and code, does not fit: the kernel drops pages "
                     "and reads them again at once. The machine has free memory, but the group does not.",
                 .confidence = Confidence::likely,
                 .figures = {{"level", "control group"},
                             {"limit_bytes", limit.count},
                             {"thrash_seconds", history.group_thrashed.seconds()},
                             {"most_pages_per_second", history.most_group_pages},
                             {"most_waiting_percent", 100 * history.most_group_waiting}},
                 .cures = {{"double the limit, and repeat until no pages are re-read",
                            fmt::format("headroom run --limit {}MiB -- COMMAND", size)},
                           {"double a container's limit", docker_update({size, limit, {}}, "CONTAINER")},
                           {"run fewer models at once in the group", "headroom plan BUDGET.toml"}}};
}

std::optional<Finding> control_group_nearly_full(const MachineHistory& history) {
  if (!history.fullest_group) return std::nullopt;
  const auto& group = history.fullest_group->sample.cgroup;
  if (!group || !group->limit || !group->anonymous || group->anonymous->count < share_of(group->limit, 90))
    return std::nullopt;
  const bool is_now = history.is_now(*history.fullest_group);
  // With this limit in MiB, the present memory is three quarters of it.
  const std::int64_t size = (group->anonymous->count / 3 * 4) / mebibytes(1).count + 1;
  const std::string held = format_bytes(*group->anonymous);
  Finding finding{
      .id = "control-group-nearly-full",
      .severity = Severity::warning,
      .title = fmt::format("The control group {} {} of its {}", is_now ? "holds" : "held", held,
                           format_bytes(*group->limit)),
      .cause = "At the limit, the kernel kills a process of the group, even if the machine has free memory.",
      .figures = {{"anonymous_bytes", group->anonymous->count}, {"limit_bytes", group->limit->count}},
      .cures = {
          {"raise the container's limit, so that the group uses three quarters of it",
           docker_update({size, *group->limit, {}}, "CONTAINER")},
          {"or raise a service's limit", fmt::format("sudo systemctl set-property NAME MemoryMax={}M", size)},
          find_holders()}};
  if (!is_now) finding.evidence = moment(history, history.fullest_group->at, held + " of anonymous memory");
  return finding;
}

}  // namespace headroom::doctor
