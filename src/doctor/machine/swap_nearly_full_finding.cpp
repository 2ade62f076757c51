#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> swap_nearly_full(const MachineHistory& history) {
  if (history.swapped_of.count == 0 || !history.lowest_available) return std::nullopt;
  const std::optional<Bytes> swap = history.swapped_of, total = history.lowest_of;
  if (history.most_swapped.count < share_of(swap, 90) ||
      history.lowest_available->count > share_of(total, 20))
    return std::nullopt;
  Finding finding =
      new_finding("swap-nearly-full", Severity::warning,
                  fmt::format("{} of {} of swap were used, and {} of {} of memory were available",
                              format_bytes(history.most_swapped), format_bytes(*swap),
                              format_bytes(*history.lowest_available), format_bytes(*total)),
                  "Swap is smaller than what is idle: the next peak meets the kernel's killer.");
  finding.evidence =
      moment(history, history.swapped_at, format_bytes(history.most_swapped) + " of swap used");
  finding.figures = {{"swap_used_bytes", history.most_swapped.count},
                     {"swap_bytes", swap->count},
                     {"available_bytes", history.lowest_available->count}};
  finding.cures = {{"see who holds the memory", "headroom top", {}},
                   make_swap_file("add swap on a disk", total, SwapFile::another)};
  return finding;
}

}  // namespace headroom::doctor
