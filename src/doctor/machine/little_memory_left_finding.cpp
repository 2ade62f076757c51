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
  Finding finding =
      new_finding(no_swap ? "no-swap-no-reserve" : "little-memory-left", Severity::warning,
                  fmt::format("Only {} of {} were available{}", format_bytes(available), format_bytes(*total),
                              no_swap ? ", and there is no swap" : ""),
                  no_swap ? "At the next peak, the kernel's OOM killer ends a process. Keep a reserve of 15 "
                            "%, and use swap for idle memory."
                  : sample.swap_total
                      ? "Keep a reserve of 15 %. The next peak goes to swap, or the kernel kills a process."
                      : "Keep a reserve of 15 %. The next peak goes to swap, if there is any, or the kernel "
                        "kills a process.");
  finding.evidence = moment(history, history.fullest_memory->at, format_bytes(available) + " available");
  finding.figures = {{"available_bytes", available.count}, {"total_bytes", total->count}};
  finding.cures = {{"see which processes hold the memory", "headroom top", {}}};
  if (no_swap) finding.cures.push_back(make_swap_file("add swap as a reserve", total));
  return finding;
}

}  // namespace headroom::doctor
