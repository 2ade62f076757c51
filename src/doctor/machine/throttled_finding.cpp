#include <fmt/format.h>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> throttled(const MachineHistory& history) {
  if (history.throttled.count == 0) return std::nullopt;
  Finding finding =
      new_finding("throttled", Severity::warning,
                  fmt::format("The board or a GPU was throttled for {} of {}",
                              format_duration(history.throttled), format_duration(history.duration())),
                  "Heat or a weak power supply reduced the clocks, so all work took longer.");
  finding.figures = {{"throttled_seconds", history.throttled.seconds()}};
  finding.cures = {{"see temperatures and the power mode", "headroom top", {}},
                   {"cool the board, or choose a lower power mode", "sudo nvpmodel -m MODE", {}}};
  return finding;
}

}  // namespace headroom::doctor
