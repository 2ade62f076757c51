// Findings about swap, zram, and thrashing of the whole machine.
#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"

namespace headroom::doctor {

std::optional<Finding> swap_thrash(const MachineHistory& history) {
  if (history.thrashed < kLeastThrash || history.group_thrashed >= kLeastThrash) return std::nullopt;
  return Finding{.id = "swap-thrash",
                 .severity = Severity::severe,
                 .title = fmt::format("The machine thrashed for {}: it re-read up to {:.0f} pages per second",
                                      format_duration(history.thrashed), history.most_thrash),
                 .cause =
                     "Programs use more memory than the machine has. The kernel drops or swaps out pages, "
                     "and must read them again at once.",
                 .confidence = Confidence::likely,
                 .evidence = moment(history, history.thrashed_at,
                                    fmt::format("{:.0f} pages per second", history.most_thrash)),
                 .figures = {{"thrash_seconds", history.thrashed.seconds()},
                             {"most_pages_per_second", history.most_thrash},
                             {"most_swapped_bytes", history.most_swapped.count}},
                 .cures = {{"see which processes hold the memory, and make them smaller", "headroom top"},
                           {"limit the largest process, so that only this process fails",
                            "headroom run --limit SIZE -- COMMAND"}}};
}

// Full swap alone may hold idle memory, and with little memory alone there is still swap: both at one moment.
std::optional<Finding> swap_nearly_full(const MachineHistory& history) {
  if (!history.fullest_swap) return std::nullopt;
  const SystemSample& sample = history.fullest_swap->sample;
  const Bytes used = *sample.swap_used, available = *sample.ram_available;
  if (used.count < share_of(sample.swap_total, 90)) return std::nullopt;
  return Finding{
      .id = "swap-nearly-full",
      .severity = Severity::warning,
      .title = fmt::format("{} of {} of swap were in use, and {} of {} of memory were available",
                           format_bytes(used), format_bytes(*sample.swap_total), format_bytes(available),
                           format_bytes(*sample.ram_total)),
      .cause =
          "Swap is too small for the idle memory. At the next peak, the kernel's OOM killer ends a process.",
      .confidence = Confidence::likely,
      .evidence = moment(history, history.fullest_swap->at, format_bytes(used) + " of swap used"),
      .figures = {{"swap_used_bytes", used.count},
                  {"swap_bytes", sample.swap_total->count},
                  {"available_bytes", available.count}},
      .cures = {find_holders(), make_swap_file("add swap on a disk", sample.ram_total, SwapFile::another)}};
}

std::optional<Finding> zram_missized(const MachineHistory& history) {
  if (!history.largest_zram) return std::nullopt;
  const SystemSample& sample = history.largest_zram->sample;
  const auto &original = sample.zram_original, &used = sample.zram_used, &total = sample.ram_total;
  if (!original || !used || used->count < mebibytes(64).count) return std::nullopt;
  const double ratio = static_cast<double>(original->count) / static_cast<double>(used->count);
  constexpr double kWorthIt = 1.5;
  const bool is_large = total && used->count >= share_of(total, 25);
  if (ratio >= kWorthIt && !is_large) return std::nullopt;
  Finding finding{
      .id = "zram-saves-little",
      .severity = Severity::warning,
      .title =
          fmt::format("zram uses {} of memory to store {}", format_bytes(*used), format_bytes(*original)),
      .cause = "The swapped memory does not compress well: weights and frames rarely do.",
      .figures = {{"original_bytes", original->count}, {"used_bytes", used->count}, {"ratio", ratio}}};
  const auto use_disk = [&](const char* what) {
    finding.cures.push_back(make_swap_file(what, total, SwapFile::before_others, used));
  };
  if (ratio < kWorthIt) {
    use_disk(
        "use swap on a fast disk first, and disable zram from the next start (on a Jetson: sudo systemctl "
        "disable nvzramconfig)");
    return finding;
  }
  finding.id = "zram-takes-much";
  finding.title = fmt::format("zram uses {} of {} of memory", format_bytes(*used), format_bytes(*total));
  finding.cause =
      "Memory that is swapped into zram stays in RAM, and GPU memory cannot be swapped. zram is larger than "
      "this machine can spare.";
  finding.confidence = Confidence::likely;
  use_disk("use swap on a fast disk before zram");
  finding.cures.push_back({"see which processes were swapped out", "headroom top"});
  return finding;
}

}  // namespace headroom::doctor
