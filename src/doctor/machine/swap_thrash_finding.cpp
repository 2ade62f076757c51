#include <fmt/format.h>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> swap_thrash(const MachineHistory& history) {
  if (history.thrashed < kLeastThrash || history.group_thrashed >= kLeastThrash) return std::nullopt;
  Finding finding =
      new_finding("swap-thrash", Severity::severe,
                  fmt::format("The machine thrashed for {}: it re-read up to {:.0f} pages per second",
                              format_duration(history.thrashed), history.most_thrash),
                  "Programs use more memory than the machine has. The kernel drops or swaps out pages, and "
                  "must read them again at once.",
                  Confidence::likely);
  finding.evidence =
      moment(history, history.thrashed_at, fmt::format("{:.0f} pages per second", history.most_thrash));
  finding.figures = {{"thrash_seconds", history.thrashed.seconds()},
                     {"most_pages_per_second", history.most_thrash},
                     {"most_swapped_bytes", history.most_swapped.count}};
  finding.cures = {{"see which processes hold the memory, and make them smaller", "headroom top", {}},
                   {"limit the largest process, so that only this process fails",
                    "headroom run --limit SIZE -- COMMAND",
                    {}}};
  return finding;
}

}  // namespace headroom::doctor
