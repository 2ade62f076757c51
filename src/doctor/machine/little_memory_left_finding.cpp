#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> little_memory_left(const MachineHistory& history) {
  if (!history.fullest_memory) return std::nullopt;
  const SystemSample& sample = history.fullest_memory->sample;
  const std::optional<Bytes> total = sample.ram_total;
  const Bytes available = *sample.ram_available;
  if (available.count > share_of(total, 10)) return std::nullopt;
  // A log that does not tell of swap says nothing of whether there is some.
  const bool no_swap = sample.swap_total == Bytes{};
  Finding finding = new_finding(
      no_swap ? "no-swap-no-reserve" : "little-memory-left", Severity::warning,
      fmt::format("Only {} of {} were available{}", format_bytes(available), format_bytes(*total),
                  no_swap ? ", and there is no swap" : ""),
      no_swap ? "The next peak meets the kernel's killer: a reserve of 15 % is the rule, and swap "
                "takes what is idle."
      : sample.swap_total ? "A reserve of 15 % is the rule: the next peak goes to swap, or is killed."
                          : "A reserve of 15 % is the rule: the next peak goes to swap, if there is some, or "
                            "is killed.");
  finding.evidence = moment(history, history.fullest_memory->at, format_bytes(available) + " available");
  finding.figures = {{"available_bytes", available.count}, {"total_bytes", total->count}};
  finding.cures = {{"see who holds the memory", "headroom top", {}}};
  if (no_swap) finding.cures.push_back(make_swap_file("have swap as a reserve", total));
  return finding;
}

}  // namespace headroom::doctor
