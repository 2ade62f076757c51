#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> zram_missized(const MachineHistory& history) {
  if (!history.largest_zram) return std::nullopt;
  const SystemSample& last = history.largest_zram->sample;
  if (!last.zram_original || !last.zram_used || last.zram_used->count < mebibytes(64).count)
    return std::nullopt;
  const double ratio =
      static_cast<double>(last.zram_original->count) / static_cast<double>(last.zram_used->count);
  constexpr double kWorthIt = 1.5;
  const bool is_large = last.zram_used->count >= share_of(last.ram_total, 25) && last.ram_total;
  if (ratio >= kWorthIt && !is_large) return std::nullopt;
  if (ratio >= kWorthIt) {
    Finding finding = new_finding("zram-takes-much", Severity::warning,
                                  fmt::format("zram uses {} of {} of memory", format_bytes(*last.zram_used),
                                              format_bytes(*last.ram_total)),
                                  "Memory that is swapped into zram stays in RAM, and GPU memory cannot be "
                                  "swapped. zram is larger than this machine can spare.",
                                  Confidence::likely);
    finding.figures = {{"original_bytes", last.zram_original->count},
                       {"used_bytes", last.zram_used->count},
                       {"ratio", ratio}};
    finding.cures = {make_swap_file("use swap on a fast disk before zram", last.ram_total,
                                    SwapFile::before_others, last.zram_used),
                     {"see which processes were swapped out", "headroom top", {}}};
    return finding;
  }
  Finding finding = new_finding("zram-saves-little", Severity::warning,
                                fmt::format("zram uses {} of memory to store {}",
                                            format_bytes(*last.zram_used), format_bytes(*last.zram_original)),
                                "The swapped memory does not compress well: weights and frames rarely do.");
  finding.figures = {
      {"original_bytes", last.zram_original->count}, {"used_bytes", last.zram_used->count}, {"ratio", ratio}};
  finding.cures = {
      make_swap_file("use swap on a fast disk first, and disable zram from the next start (on a Jetson: sudo "
                     "systemctl disable nvzramconfig)",
                     last.ram_total, SwapFile::before_others, last.zram_used)};
  return finding;
}

}  // namespace headroom::doctor
