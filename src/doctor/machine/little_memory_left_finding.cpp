#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> little_memory_left(const MachineHistory& history) {
  if (!history.lowest_available) return std::nullopt;
  const std::optional<Bytes> total = history.lowest_of;
  if (history.lowest_available->count > share_of(total, 10)) return std::nullopt;
  const bool no_swap = !history.last.swap_total || history.last.swap_total->count == 0;
  Finding finding = new_finding(
      no_swap ? "no-swap-no-reserve" : "little-memory-left", Severity::warning,
      fmt::format("Only {} of {} were available{}", format_bytes(*history.lowest_available),
                  format_bytes(*total), no_swap ? ", and there is no swap" : ""),
      no_swap ? "The next peak meets the kernel's killer: a reserve of 15 % is the rule, and swap "
                "takes what is idle."
              : "A reserve of 15 % is the rule: the next peak goes to swap, or is killed.");
  finding.evidence =
      moment(history, history.lowest_at, format_bytes(*history.lowest_available) + " available");
  finding.figures = {{"available_bytes", history.lowest_available->count}, {"total_bytes", total->count}};
  finding.cures = {{"see who holds the memory", "headroom top", {}}};
  if (no_swap) finding.cures.push_back(make_swap_file("have swap as a reserve", total));
  return finding;
}

}  // namespace headroom::doctor
