#include <fmt/format.h>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> swap_thrash(const MachineHistory& history) {
  if (history.thrashed < kLeastThrash || history.group_thrashed >= kLeastThrash) return std::nullopt;
  Finding finding =
      new_finding("swap-thrash", Severity::severe,
                  fmt::format("The machine thrashed for {}: up to {:.0f} pages a second were read again",
                              format_duration(history.thrashed), history.most_thrash),
                  "Programs use more memory than there is: pages are thrown out and needed again at once, of "
                  "files or from swap.",
                  Confidence::likely);
  finding.evidence =
      moment(history, history.thrashed_at, fmt::format("{:.0f} pages a second", history.most_thrash));
  finding.figures = {{"thrash_seconds", history.thrashed.seconds()},
                     {"most_pages_per_second", history.most_thrash},
                     {"most_swapped_bytes", history.most_swapped.count}};
  finding.cures = {
      {"see who takes the memory, and make it smaller", "headroom top", {}},
      {"put a limit on the largest, so that it fails alone", "headroom run --limit SIZE -- COMMAND", {}}};
  return finding;
}

}  // namespace headroom::doctor
