// Findings about the memory that a machine has left, and about memory that no process explains.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"

namespace headroom::doctor {
namespace {

std::optional<Finding> unaccounted_memory(const SystemSample& sample, bool is_now) {
  if (!sample.ram_total) return std::nullopt;
  Bytes rest = *sample.ram_total;
  for (const auto* part : {&sample.ram_free, &sample.ram_buffers, &sample.ram_cached, &sample.ram_anonymous,
                           &sample.slab_reclaimable, &sample.slab_unreclaimable, &sample.page_tables}) {
    if (!*part) return std::nullopt;
    rest = rest - **part;
  }
  for (const auto* part : {&sample.kernel_stacks, &sample.huge_pages_total, &sample.zram_used,
                           &sample.nvmap_used, &sample.nvmap_free, &sample.swap_cached})
    rest = rest - part->value_or(Bytes{});
  if (rest.count < share_of(sample.ram_total, 15) || rest < mebibytes(512)) return std::nullopt;
  Finding finding{
      .id = "memory-of-no-process",
      .severity = Severity::note,
      .title = fmt::format("{} of {} {} in no figure of a process, a cache or the kernel", format_bytes(rest),
                           format_bytes(*sample.ram_total), is_now ? "are" : "were"),
      .cause =
          "Drivers hold it. With an integrated GPU, it is GPU memory, which is not in any process's resident "
          "memory. On a virtual machine, it is memory that the host reclaimed.",
      .confidence = Confidence::possible,
      .figures = {{"unaccounted_bytes", rest.count}, {"total_bytes", sample.ram_total->count}},
      .cures = {{"see how much memory the GPU driver lists for each process (as root)",
                 "sudo cat /sys/kernel/debug/nvmap/iovmm/clients"},
                {"log it together with the GPU's figures",
                 "sudo headroom watch --processes 10 --output watch.jsonl"}}};
  const auto add_if_used = [&](const char* name, const std::optional<Bytes>& bytes) {
    if (bytes && bytes->count > 0) finding.figures.push_back({name, bytes->count});
  };
  add_if_used("huge_pages_bytes", sample.huge_pages_total);
  add_if_used("zram_used_bytes", sample.zram_used);
  return finding;
}

}  // namespace

std::optional<Finding> little_memory_left(const MachineHistory& history) {
  if (!history.fullest_memory) return std::nullopt;
  const SystemSample& sample = history.fullest_memory->sample;
  const Bytes available = *sample.ram_available, total = *sample.ram_total;
  if (available.count > share_of(total, 10)) return std::nullopt;
  // A log may lack the figures of swap, so absent figures do not mean that there is none.
  const bool no_swap = sample.swap_total == Bytes{};
  Finding finding{
      .id = no_swap ? "no-swap-no-reserve" : "little-memory-left",
      .severity = Severity::warning,
      .title = fmt::format("Only {} of {} were available{}", format_bytes(available), format_bytes(total),
                           no_swap ? ", and there is no swap" : ""),
      .cause = no_swap ? "At the next peak, the kernel's OOM killer ends a process. Keep a reserve of 15 %, "
                         "and use swap for idle memory."
               : sample.swap_total
                   ? "Keep a reserve of 15 %. The next peak goes to swap, or the kernel kills a process."
                   : "Keep a reserve of 15 %. The next peak goes to swap, if there is any, or the kernel "
                     "kills a process.",
      .evidence = moment(history, history.fullest_memory->at, format_bytes(available) + " available"),
      .figures = {{"available_bytes", available.count}, {"total_bytes", total.count}},
      .cures = {find_holders()}};
  if (no_swap) finding.cures.push_back(make_swap_file("add swap as a reserve", total));
  return finding;
}

std::optional<Finding> free_memory_in_pieces(const MachineHistory& history) {
  constexpr Nanoseconds kLeast{30'000'000'000};  // as the alert of this name
  if (history.in_pieces < kLeast) return std::nullopt;
  return Finding{
      .id = "free-memory-in-pieces",
      .severity = Severity::warning,
      .title = fmt::format(
          "The largest free block was up to {:.1f} times smaller than before, with the same free memory",
          history.worst_factor),
      .cause = "Physical memory is fragmented: large device allocations can fail.",
      .confidence = Confidence::likely,
      .figures = {{"worst_factor", history.worst_factor}},
      .cures = {{"compact free pages into large blocks", "echo 1 | sudo tee /proc/sys/vm/compact_memory"}}};
}

// At the end of a session, memory that no figure of the kernel accounts for.
std::optional<Finding> memory_of_no_process(const MachineHistory& history) {
  return in_newest_session(history, [&](const MachineSession& session, bool is_last) {
    return unaccounted_memory(is_last ? history.last : session.last, is_last);
  });
}

bool is_of_desktop(std::string_view process) {
  static const auto kNames = split_words(
      "gnome-shell Xorg Xwayland gdm3 gdm-x-session lightdm sddm kwin_x11 kwin_wayland plasmashell "
      "xfce4-session xfdesktop xfwm4 lxpanel lxsession nautilus-deskto gnome-software tracker-miner-f "
      "update-notifier gsd-xsettings unity-settings- compiz");
  return std::find(kNames.begin(), kNames.end(), process) != kNames.end();
}

DesktopProcesses desktop_in(const SystemSample& sample) {
  DesktopProcesses desktop;
  for (const ProcessSample& process : sample.processes) {
    if (!process.rss || !is_of_desktop(process.name)) continue;
    desktop.held += process.pss.value_or(*process.rss);
    if (desktop.names.find(process.name) == std::string::npos)
      desktop.names += (desktop.names.empty() ? "" : ", ") + process.name;
  }
  return desktop;
}

std::optional<Finding> desktop_running(const MachineHistory& history) {
  if (!history.largest_desktop) return std::nullopt;
  const SystemSample& sample = history.largest_desktop->sample;
  const auto [sum, names] = desktop_in(sample);
  constexpr Bytes kSmallMachine = gibibytes(33);
  if (sum < mebibytes(32) || !sample.ram_total || kSmallMachine < *sample.ram_total) return std::nullopt;
  return Finding{.id = "desktop-running",
                 .severity = Severity::note,
                 .title = fmt::format("A desktop runs and holds about {}: {}", format_bytes(sum), names),
                 .cause = "A machine that only runs inference needs no desktop.",
                 .figures = {{"desktop_bytes", sum.count}},
                 .cures = {{"stop the desktop", "sudo systemctl isolate multi-user.target", sum},
                           {"boot without it from now on", "sudo systemctl set-default multi-user.target"}}};
}

}  // namespace headroom::doctor
