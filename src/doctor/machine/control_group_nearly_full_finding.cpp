#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> control_group_nearly_full(const MachineHistory& history) {
  if (!history.fullest_group) return std::nullopt;
  const auto& group = history.fullest_group->sample.cgroup;
  const bool is_now = history.is_now(*history.fullest_group);
  if (!group || !group->limit || !group->anonymous || group->anonymous->count < share_of(group->limit, 90))
    return std::nullopt;
  Finding finding = new_finding(
      "control-group-nearly-full", Severity::warning,
      fmt::format("The control group {} {} of its {}", is_now ? "holds" : "held",
                  format_bytes(*group->anonymous), format_bytes(*group->limit)),
      "At the limit, the kernel kills a process of the group, even if the machine has free memory.");
  finding.figures = {{"anonymous_bytes", group->anonymous->count}, {"limit_bytes", group->limit->count}};
  if (!is_now)
    finding.evidence =
        moment(history, history.fullest_group->at, format_bytes(*group->anonymous) + " of anonymous memory");
  // So that what is held now is three quarters of it.
  const std::int64_t size = (group->anonymous->count / 3 * 4) / mebibytes(1).count + 1;
  finding.cures = {
      {"raise the container's limit, so that the group uses three quarters of it",
       docker_update({size, *group->limit, {}}, "CONTAINER"),
       {}},
      {"or raise a service's limit", fmt::format("sudo systemctl set-property NAME MemoryMax={}M", size), {}},
      {"see which processes hold the memory", "headroom top", {}}};
  return finding;
}

}  // namespace headroom::doctor
