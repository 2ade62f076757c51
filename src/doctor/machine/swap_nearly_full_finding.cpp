#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

// Full swap alone is what is idle, and little memory alone has swap to go to: both at one moment.
std::optional<Finding> swap_nearly_full(const MachineHistory& history) {
  if (!history.fullest_swap) return std::nullopt;
  const SystemSample& sample = history.fullest_swap->sample;
  const Bytes used = *sample.swap_used, available = *sample.ram_available;
  if (used.count < share_of(sample.swap_total, 90)) return std::nullopt;
  Finding finding = new_finding(
      "swap-nearly-full", Severity::warning,
      fmt::format("{} of {} of swap were in use, and {} of {} of memory were available", format_bytes(used),
                  format_bytes(*sample.swap_total), format_bytes(available), format_bytes(*sample.ram_total)),
      "Swap is too small for the idle memory. At the next peak, the kernel's OOM killer ends a process.",
      Confidence::likely);
  finding.evidence = moment(history, history.fullest_swap->at, format_bytes(used) + " of swap used");
  finding.figures = {{"swap_used_bytes", used.count},
                     {"swap_bytes", sample.swap_total->count},
                     {"available_bytes", available.count}};
  finding.cures = {{"see which processes hold the memory", "headroom top", {}},
                   make_swap_file("add swap on a disk", sample.ram_total, SwapFile::another)};
  return finding;
}

}  // namespace headroom::doctor
