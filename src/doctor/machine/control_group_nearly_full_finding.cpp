#include <fmt/format.h>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> control_group_nearly_full(const MachineHistory& history) {
  const auto& group = history.last.cgroup;
  if (!group || !group->limit || !group->anonymous || group->anonymous->count < share_of(group->limit, 90))
    return std::nullopt;
  Finding finding =
      new_finding("control-group-nearly-full", Severity::warning,
                  fmt::format("The control group holds {} of its {}", format_bytes(*group->anonymous),
                              format_bytes(*group->limit)),
                  "At its limit the kernel kills a process of the group, however much the machine has left.");
  finding.figures = {{"anonymous_bytes", group->anonymous->count}, {"limit_bytes", group->limit->count}};
  // So that what is held now is three quarters of it.
  const std::int64_t size = (group->anonymous->count / 3 * 4) / mebibytes(1).count + 1;
  finding.cures = {
      {"raise the container's limit, so that this is three quarters of it",
       fmt::format("docker update --memory={0}m --memory-swap={0}m CONTAINER", size),
       {}},
      {"or of a service", fmt::format("sudo systemctl set-property NAME MemoryMax={}M", size), {}},
      {"see who holds it", "headroom top", {}}};
  return finding;
}

}  // namespace headroom::doctor
