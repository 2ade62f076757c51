// Findings about memory, swap, zram and control groups.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/machine/machine_findings.h"

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
  return std::ranges::find(kNames, process) != kNames.end();
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

// Findings about swap, zram, and thrashing of the whole machine.
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

// Findings about a control group at its limit, and about the kernel's OOM killer.
std::optional<Finding> kernel_oom_kill(const MachineHistory& history) {
  std::vector<Evidence> kills;
  for (const KernelEvent& event : history.kernel_events)
    if (event.kind == KernelEventKind::oom_kill) kills.push_back({.text = event.text});
  if (history.oom_kills == 0 && kills.empty()) return std::nullopt;
  // The machine's counter includes kills in other control groups.
  const bool is_elsewhere = history.all_kills_were_elsewhere();
  Finding finding{
      .id = "kernel-oom-kill",
      .severity = is_elsewhere ? Severity::warning : Severity::severe,
      .title = is_elsewhere ? "The kernel killed a process outside this control group because memory ran out"
                            : "The kernel killed a process because memory ran out",
      .cause = is_elsewhere ? "Another control group was at its limit, or the machine was out of memory."
                            : "The machine or a control group was out of memory.",
      .times = std::max<std::int64_t>(1, history.oom_kills),
      .evidence = std::move(kills),
      .figures = {{"oom_kills", history.oom_kills}},
      .cures = {{"read the kernel's report: how much memory each process held", "dmesg | headroom doctor -"},
                {"plan which programs run together, with a reserve", "headroom plan BUDGET.toml"}}};
  if (history.group_oom_kills) finding.figures.push_back({"group_oom_kills", *history.group_oom_kills});
  return finding;
}

// Reading a dataset again and again through a full cache looks the same, at the pace of a disk: a warning.
std::optional<Finding> control_group_thrash(const MachineHistory& history) {
  if (history.group_thrashed < kLeastThrash) return std::nullopt;
  constexpr double kPaceOfDisks = 25'000, kWaiting = 0.05;  // pages a second: 100 MiB
  const bool is_severe = history.most_group_pages >= kPaceOfDisks && history.most_group_waiting >= kWaiting;
  const Bytes limit = history.thrashed_group_limit;
  // Twice the limit is a first try: the samples show that the files need more room, but not how much.
  const std::int64_t size = 2 * limit.count / mebibytes(1).count;
  return Finding{.id = "control-group-thrash",
                 .severity = is_severe ? Severity::severe : Severity::warning,
                 .title = fmt::format(
                     "At its limit of {}, the control group re-read up to {:.0f} pages per second, for {}",
                     format_bytes(limit), history.most_group_pages, format_duration(history.group_thrashed)),
                 .cause =
                     "Its working set, such as mapped weights and code, does not fit: the kernel drops pages "
                     "and reads them again at once. The machine has free memory, but the group does not.",
                 .confidence = Confidence::likely,
                 .figures = {{"level", "control group"},
                             {"limit_bytes", limit.count},
                             {"thrash_seconds", history.group_thrashed.seconds()},
                             {"most_pages_per_second", history.most_group_pages},
                             {"most_waiting_percent", 100 * history.most_group_waiting}},
                 .cures = {{"double the limit, and repeat until no pages are re-read",
                            fmt::format("headroom run --limit {}MiB -- COMMAND", size)},
                           {"double a container's limit", docker_update({size, limit, {}}, "CONTAINER")},
                           {"run fewer models at once in the group", "headroom plan BUDGET.toml"}}};
}

std::optional<Finding> control_group_nearly_full(const MachineHistory& history) {
  if (!history.fullest_group) return std::nullopt;
  const auto& group = history.fullest_group->sample.cgroup;
  if (!group || !group->limit || !group->anonymous || group->anonymous->count < share_of(group->limit, 90))
    return std::nullopt;
  const bool is_now = history.is_now(*history.fullest_group);
  // With this limit in MiB, the present memory is three quarters of it.
  const std::int64_t size = (group->anonymous->count / 3 * 4) / mebibytes(1).count + 1;
  const std::string held = format_bytes(*group->anonymous);
  Finding finding{
      .id = "control-group-nearly-full",
      .severity = Severity::warning,
      .title = fmt::format("The control group {} {} of its {}", is_now ? "holds" : "held", held,
                           format_bytes(*group->limit)),
      .cause = "At the limit, the kernel kills a process of the group, even if the machine has free memory.",
      .figures = {{"anonymous_bytes", group->anonymous->count}, {"limit_bytes", group->limit->count}},
      .cures = {
          {"raise the container's limit, so that the group uses three quarters of it",
           docker_update({size, *group->limit, {}}, "CONTAINER")},
          {"or raise a service's limit", fmt::format("sudo systemctl set-property NAME MemoryMax={}M", size)},
          find_holders()}};
  if (!is_now) finding.evidence = moment(history, history.fullest_group->at, held + " of anonymous memory");
  return finding;
}

}  // namespace headroom::doctor
