// One function a finding, and one list of them at the end.
#include "doctor/machine_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analysis/series_growth.h"
#include "doctor/cure_commands.h"

namespace headroom::doctor {
namespace {

using Found = std::optional<Finding>;

Finding finding_of(const char* id, Severity severity, std::string title, std::string cause,
                   Confidence confidence = Confidence::certain) {
  Finding finding;
  finding.id = id;
  finding.severity = severity;
  finding.title = std::move(title);
  finding.cause = std::move(cause);
  finding.confidence = confidence;
  return finding;
}

// "636.0 MiB available, 12.000 s after the first of 40 samples over 1.5 min"; nothing of one sample alone.
std::vector<Evidence> moment(const MachineHistory& history, Nanoseconds at, const std::string& what) {
  if (history.duration().count <= 0) return {};
  return {{"", 0,
           fmt::format("{}, {} of {} samples over {}", what,
                       at.count == 0 ? "in the first" : format_duration(at) + " after the first",
                       history.samples, format_duration(history.duration()))}};
}

std::int64_t share_of(const std::optional<Bytes>& total, std::int64_t percent) {
  return total ? total->count / 100 * percent : 0;
}

Found oom_kills(const MachineHistory& history) {
  if (history.oom_kills == 0 &&
      std::none_of(history.kernel_events.begin(), history.kernel_events.end(),
                   [](const KernelEvent& event) { return event.kind == KernelEventKind::oom_kill; }))
    return std::nullopt;
  // The counter is the machine's: another group's kills are in it, too.
  const bool is_elsewhere = history.group_oom_kills == 0;
  Finding finding =
      finding_of("kernel-oom-kill", is_elsewhere ? Severity::warning : Severity::severe,
                 is_elsewhere ? "The kernel killed a process for want of memory, none of this control group"
                              : "The kernel killed a process for want of memory",
                 is_elsewhere ? "Another control group was at its limit, or the machine was out of memory."
                              : "The machine or a control group was out of memory.");
  for (const KernelEvent& event : history.kernel_events)
    if (event.kind == KernelEventKind::oom_kill) finding.evidence.push_back({"", 0, event.text});
  finding.times = std::max<std::int64_t>(1, history.oom_kills);
  finding.figures = {{"oom_kills", history.oom_kills}};
  if (history.group_oom_kills) finding.figures.push_back({"group_oom_kills", *history.group_oom_kills});
  finding.cures = {{"read the kernel's report: who held what", "dmesg | headroom doctor -", {}},
                   {"plan what runs together, with a reserve", "headroom plan BUDGET.toml", {}}};
  return finding;
}

constexpr std::int64_t kLeastThrash = 3'000'000'000;  // as the alert waits

// Reading a dataset round and round through a full cache looks alike, at the pace of a disk: a warning.
Found group_thrash(const MachineHistory& history) {
  if (history.group_thrashed.count < kLeastThrash) return std::nullopt;
  constexpr double kPaceOfDisks = 25'000, kWaiting = 0.05;  // pages a second: 100 MiB
  const bool is_severe = history.most_group_pages >= kPaceOfDisks && history.most_group_waiting >= kWaiting;
  const auto& group = history.last.cgroup;
  const Bytes limit = group && group->limit ? *group->limit : Bytes{};
  Finding finding = finding_of(
      "control-group-thrash", is_severe ? Severity::severe : Severity::warning,
      fmt::format("At its limit of {} the control group read up to {:.0f} pages a second again, for {}",
                  format_bytes(limit), history.most_group_pages, format_duration(history.group_thrashed)),
      "What it needs all the time, such as mapped weights and code, does not fit: pages are dropped and read "
      "again at once. The machine has memory; the group has not.",
      Confidence::likely);
  finding.figures = {{"level", "control group"},
                     {"limit_bytes", limit.count},
                     {"thrash_seconds", history.group_thrashed.seconds()},
                     {"most_pages_per_second", history.most_group_pages},
                     {"most_waiting_percent", 100 * history.most_group_waiting}};
  // Twice the limit is a first try: the samples do not tell how much of the files is needed, only that it is
  // more than there is room for.
  const std::int64_t size = 2 * limit.count / mebibytes(1).count;
  finding.cures = {{"double the limit, and again until nothing is read again",
                    fmt::format("headroom run --limit {}MiB -- COMMAND", size),
                    {}},
                   {"likewise of a container",
                    fmt::format("docker update --memory={0}m --memory-swap={0}m CONTAINER", size),
                    {}},
                   {"keep fewer models at once within it", "headroom plan BUDGET.toml", {}}};
  return finding;
}

Found swap_thrash(const MachineHistory& history) {
  if (history.thrashed.count < kLeastThrash || history.group_thrashed.count >= kLeastThrash)
    return std::nullopt;
  Finding finding =
      finding_of("swap-thrash", Severity::severe,
                 fmt::format("The machine thrashed for {}: up to {:.0f} pages a second were read again",
                             format_duration(history.thrashed), history.most_thrash),
                 "Programs use more memory than there is: pages are thrown out and needed again at once, of "
                 "files or from swap.",
                 Confidence::likely);
  finding.evidence =
      moment(history, history.thrashed_at, fmt::format("{:.0f} pages a second", history.most_thrash));
  finding.figures = {{"thrash_seconds", history.thrashed.seconds()},
                     {"most_pages_per_second", history.most_thrash},
                     {"most_swapped_bytes", history.most_swapped.count}};
  finding.cures = {
      {"see who takes the memory, and make it smaller", "headroom top", {}},
      {"put a limit on the largest, so that it fails alone", "headroom run --limit SIZE -- COMMAND", {}}};
  return finding;
}

// Steady growth, with the time that is left where it can be told: not further ahead than twice what was seen.
Found running_out(const MachineHistory& history) {
  const auto &left = history.seconds_left.value, &per_hour = history.growth_per_hour.value;
  constexpr double kSoon = 3600, kLongEnough = 60;
  const double grown = per_hour.value_or(0) / 3600 * history.duration().seconds();
  const bool is_much = history.duration().seconds() >= kLongEnough &&
                       grown > static_cast<double>(share_of(history.last.ram_total, 2));
  if (!left && !is_much) return std::nullopt;
  const std::string memory = history.seconds_left.detail.empty() ? "memory" : history.seconds_left.detail;
  const auto in = Nanoseconds{static_cast<std::int64_t>(std::min(left.value_or(0), 1e9) * 1e9)};
  Finding finding =
      finding_of(left ? "memory-running-out" : "memory-grows",
                 left && *left < kSoon ? Severity::severe : Severity::warning,
                 left ? fmt::format("If it goes on so, {} is used up {} after the end of these samples",
                                    memory, format_duration(in))
                      : fmt::format("Memory grows steadily, by {} an hour",
                                    format_bytes({static_cast<std::int64_t>(*per_hour)})),
                 "What is used grows steadily: a leak, a cache without a bound, or a log in memory.",
                 Confidence::likely);
  if (left) finding.figures.push_back({"left_seconds", *left});
  if (per_hour) finding.figures.push_back({"growth_per_hour_bytes", static_cast<std::int64_t>(*per_hour)});
  const ProcessGrowth* most = nullptr;
  for (const auto& [pid, process] : history.processes)
    if (!most || process.last - process.first > most->last - most->first) most = &process;
  if (most && most->last > most->first) {
    // A leak of a process, where most of the growth is its own.
    if (2 * static_cast<double>((most->last - most->first).count) >= grown && grown > 0) {
      finding.title += fmt::format("; most of it is {}'s", most->name);
      finding.figures.push_back({"level", "process"});
    }
    finding.figures.push_back({"fastest_process", most->name});
    finding.figures.push_back({"fastest_process_growth_bytes", (most->last - most->first).count});
    finding.cures.push_back({fmt::format("look into {}, which grew most", most->name),
                             "headroom trace -- COMMAND", most->last - most->first});
  } else {
    finding.cures.push_back({"find out who grows", "headroom watch --processes 10 --output watch.jsonl", {}});
  }
  return finding;
}

Found levelled_off(const MachineHistory& history) {
  if (history.seconds_left.value || history.growth_per_hour.value.value_or(0) > 0) return std::nullopt;
  const double least =
      static_cast<double>(std::max(share_of(history.last.ram_total, 2), mebibytes(64).count));
  const auto growth = analysis::growth_of(history.at, history.used, least);
  if (growth.growth != analysis::Growth::grew_then_stayed) return std::nullopt;
  const auto [low, high] = std::minmax_element(history.used.begin(), history.used.end());
  Finding finding =
      finding_of("growth-levelled-off", Severity::note,
                 fmt::format("Memory grew by {} and then stayed", format_bytes({*high - *low})),
                 "Arenas, caches and pools that filled: no leak by these samples.", Confidence::likely);
  finding.figures = {{"growth_bytes", *high - *low}};
  return finding;
}

Found cache_starves_nvmap(const MachineHistory& history) {
  if (!history.starved_free) return std::nullopt;
  Finding finding =
      finding_of("page-cache-starves-nvmap", Severity::warning,
                 fmt::format("Only {} were free for the GPU while the page cache held {}",
                             format_bytes(*history.starved_free), format_bytes(*history.starved_cache)),
                 "NvMap takes free pages only: a GPU allocation can fail while MemAvailable is large.",
                 Confidence::likely);
  finding.evidence = moment(history, history.starved_at, format_bytes(*history.starved_free) + " free");
  finding.figures = {{"free_bytes", history.starved_free->count},
                     {"cache_bytes", history.starved_cache->count}};
  finding.cures = {{"give the page cache back before models are loaded",
                    "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches", history.starved_cache},
                   keep_pages_free(history.last.ram_total)};
  return finding;
}

Found in_pieces(const MachineHistory& history) {
  constexpr std::int64_t kLeast = 30'000'000'000;  // as the alert waits
  if (history.in_pieces.count < kLeast) return std::nullopt;
  Finding finding = finding_of(
      "free-memory-in-pieces", Severity::warning,
      fmt::format("The largest free block was up to {:.1f} times smaller than before, with as much free",
                  history.worst_factor),
      "Physical memory is fragmented: large requests of devices can fail.", Confidence::likely);
  finding.figures = {{"worst_factor", history.worst_factor}};
  finding.cures = {
      {"gather free pages into large blocks", "echo 1 | sudo tee /proc/sys/vm/compact_memory", {}}};
  return finding;
}

Found little_available(const MachineHistory& history) {
  if (!history.lowest_available) return std::nullopt;
  const std::optional<Bytes> total = history.lowest_of;
  if (history.lowest_available->count > share_of(total, 10)) return std::nullopt;
  const bool no_swap = !history.last.swap_total || history.last.swap_total->count == 0;
  Finding finding =
      finding_of(no_swap ? "no-swap-no-reserve" : "little-memory-left", Severity::warning,
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

Found group_nearly_full(const MachineHistory& history) {
  const auto& group = history.last.cgroup;
  if (!group || !group->limit || !group->anonymous || group->anonymous->count < share_of(group->limit, 90))
    return std::nullopt;
  Finding finding =
      finding_of("control-group-nearly-full", Severity::warning,
                 fmt::format("The control group holds {} of its {}", format_bytes(*group->anonymous),
                             format_bytes(*group->limit)),
                 "At its limit the kernel kills a process of the group, however much the machine has left.");
  finding.figures = {{"anonymous_bytes", group->anonymous->count}, {"limit_bytes", group->limit->count}};
  // So that what is held now is three quarters of it.
  const std::int64_t size = (group->anonymous->count / 3 * 4) / mebibytes(1).count + 1;
  finding.cures = {
      {"raise the container's limit, so that this is three quarters of it",
       fmt::format("docker update --memory={0}m --memory-swap={0}m CONTAINER", size),
       {}},
      {"or of a service", fmt::format("sudo systemctl set-property NAME MemoryMax={}M", size), {}},
      {"see who holds it", "headroom top", {}}};
  return finding;
}

Found swap_nearly_full(const MachineHistory& history) {
  if (history.swapped_of.count == 0 || !history.lowest_available) return std::nullopt;
  const std::optional<Bytes> swap = history.swapped_of, total = history.lowest_of;
  if (history.most_swapped.count < share_of(swap, 90) ||
      history.lowest_available->count > share_of(total, 20))
    return std::nullopt;
  Finding finding =
      finding_of("swap-nearly-full", Severity::warning,
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
                   make_swap_file("add swap on a disk", total)};
  return finding;
}

// What no figure of the kernel accounts for. Huge pages and zram's own memory are told apart from it.
Found unaccounted(const MachineHistory& history) {
  const SystemSample& last = history.last;
  if (!last.ram_total || !last.ram_free || !last.ram_buffers || !last.ram_cached || !last.ram_anonymous ||
      !last.slab_reclaimable || !last.slab_unreclaimable || !last.page_tables)
    return std::nullopt;
  Bytes rest = *last.ram_total - *last.ram_free - *last.ram_buffers - *last.ram_cached - *last.ram_anonymous -
               *last.slab_reclaimable - *last.slab_unreclaimable - *last.page_tables;
  for (const auto* held : {&last.kernel_stacks, &last.huge_pages_total, &last.zram_used, &last.nvmap_used,
                           &last.nvmap_free, &last.swap_cached})
    rest = rest - held->value_or(Bytes{});
  if (rest.count < share_of(last.ram_total, 15) || rest.count < mebibytes(512).count) return std::nullopt;
  Finding finding = finding_of(
      "memory-of-no-process", Severity::note,
      fmt::format("{} of {} are held by no process, cache or part of the kernel that tells of it",
                  format_bytes(rest), format_bytes(*last.ram_total)),
      "Drivers hold it: on a machine with an integrated GPU that is GPU memory, which no process' resident "
      "memory shows; on a virtual machine what its host took back.",
      Confidence::possible);
  finding.figures = {{"unaccounted_bytes", rest.count}, {"total_bytes", last.ram_total->count}};
  if (last.huge_pages_total && last.huge_pages_total->count > 0)
    finding.figures.push_back({"huge_pages_bytes", last.huge_pages_total->count});
  if (last.zram_used && last.zram_used->count > 0)
    finding.figures.push_back({"zram_used_bytes", last.zram_used->count});
  finding.cures = {
      {"see what the GPU's driver tells of processes (as root)",
       "sudo cat /sys/kernel/debug/nvmap/iovmm/clients",
       {}},
      {"log it with the GPU's figures", "sudo headroom watch --processes 10 --output watch.jsonl", {}}};
  return finding;
}

Found zram_missized(const MachineHistory& history) {
  const SystemSample& last = history.last;
  if (!last.zram_original || !last.zram_used || last.zram_used->count < mebibytes(64).count)
    return std::nullopt;
  const double ratio =
      static_cast<double>(last.zram_original->count) / static_cast<double>(last.zram_used->count);
  constexpr double kWorthIt = 1.5;
  const bool is_large = last.zram_used->count >= share_of(last.ram_total, 25) && last.ram_total;
  if (ratio >= kWorthIt && !is_large) return std::nullopt;
  if (ratio >= kWorthIt) {
    Finding finding = finding_of("zram-takes-much", Severity::warning,
                                 fmt::format("zram takes {} of {} of memory", format_bytes(*last.zram_used),
                                             format_bytes(*last.ram_total)),
                                 "What is swapped into zram stays in memory, and a GPU's memory cannot be: "
                                 "zram is larger than this machine "
                                 "can spare.",
                                 Confidence::likely);
    finding.figures = {{"original_bytes", last.zram_original->count},
                       {"used_bytes", last.zram_used->count},
                       {"ratio", ratio}};
    finding.cures = {make_swap_file("swap to a fast disk before zram", last.ram_total, true, last.zram_used),
                     {"see who was swapped out", "headroom top", {}}};
    return finding;
  }
  Finding finding = finding_of("zram-saves-little", Severity::warning,
                               fmt::format("zram takes {} of memory to hold {}",
                                           format_bytes(*last.zram_used), format_bytes(*last.zram_original)),
                               "What was swapped out does not compress: weights and frames seldom do.");
  finding.figures = {
      {"original_bytes", last.zram_original->count}, {"used_bytes", last.zram_used->count}, {"ratio", ratio}};
  finding.cures = {make_swap_file(
      "swap to a fast disk first, and do without zram from the next start on (on a Jetson: sudo systemctl "
      "disable nvzramconfig)",
      last.ram_total, true, last.zram_used)};
  return finding;
}

Found desktop(const MachineHistory& history) {
  constexpr std::array kNames{"gnome-shell",
                              "Xorg",
                              "Xwayland",
                              "gdm3",
                              "gdm-x-session",
                              "lightdm",
                              "sddm",
                              "kwin_x11",
                              "kwin_wayland",
                              "plasmashell",
                              "xfce4-session",
                              "xfdesktop",
                              "xfwm4",
                              "lxpanel",
                              "lxsession",
                              "nautilus-deskto",
                              "gnome-software",
                              "tracker-miner-f",
                              "update-notifier",
                              "gsd-xsettings",
                              "unity-settings-",
                              "compiz"};
  Bytes sum;
  std::string names;
  for (const ProcessSample& process : history.last.processes) {
    if (!process.rss || std::find(kNames.begin(), kNames.end(), process.name) == kNames.end()) continue;
    sum += process.pss.value_or(*process.rss);
    if (names.find(process.name) == names.npos) names += (names.empty() ? "" : ", ") + process.name;
  }
  constexpr std::int64_t kSmallMachine = 33;  // GiB
  const bool is_small =
      history.last.ram_total && history.last.ram_total->count <= gibibytes(kSmallMachine).count;
  if (sum < mebibytes(32) || !is_small) return std::nullopt;
  Finding finding = finding_of("desktop-running", Severity::note,
                               fmt::format("A desktop runs and holds about {}: {}", format_bytes(sum), names),
                               "A machine that only infers needs none.");
  finding.figures = {{"desktop_bytes", sum.count}};
  finding.cures = {{"stop the desktop", "sudo systemctl isolate multi-user.target", sum},
                   {"boot without it from now on", "sudo systemctl set-default multi-user.target", {}}};
  return finding;
}

// Of a GPU with memory of its own; an integrated one has the machine's, which the others tell of.
Found gpu_nearly_full(const MachineHistory& history) {
  for (const GpuSample& gpu : history.last.gpus) {
    if (!gpu.memory_total || !gpu.memory_used || gpu.memory_total->count <= 0) continue;
    if (gpu.memory_used->count < share_of(gpu.memory_total, 95)) continue;
    const Bytes free = *gpu.memory_total - *gpu.memory_used;
    Finding finding = finding_of("gpu-memory-nearly-full", Severity::note,
                                 fmt::format("GPU {}{} has {} of {} free", gpu.index.value_or(0),
                                             gpu.name.empty() ? "" : fmt::format(" ({})", gpu.name),
                                             format_bytes(free), format_bytes(*gpu.memory_total)),
                                 "What starts now finds no room. Programs that take most of a GPU at their "
                                 "start (JAX, TensorFlow, vLLM) "
                                 "look like this when all is well.",
                                 Confidence::possible);
    finding.figures = {
        {"gpu", gpu.index.value_or(0)}, {"free_bytes", free.count}, {"total_bytes", gpu.memory_total->count}};
    const std::vector<GpuProcess> processes = gpu.processes.value_or(std::vector<GpuProcess>{});
    const auto largest =
        std::max_element(processes.begin(), processes.end(), [](const GpuProcess& x, const GpuProcess& y) {
          return x.used.value_or(Bytes{}) < y.used.value_or(Bytes{});
        });
    if (largest != processes.end() && largest->used)
      finding.cures.push_back({fmt::format("end or move process {}, which holds most", largest->pid),
                               fmt::format("kill {}", largest->pid), *largest->used});
    finding.cures.push_back({"see who holds it", "headroom top", {}});
    return finding;
  }
  return std::nullopt;
}

Found throttled(const MachineHistory& history) {
  if (history.throttled.count == 0) return std::nullopt;
  Finding finding =
      finding_of("throttled", Severity::warning,
                 fmt::format("The board or a GPU was throttled for {} of {}",
                             format_duration(history.throttled), format_duration(history.duration())),
                 "Heat, or more current than the supply gives: clocks went down, and times with them.");
  finding.figures = {{"throttled_seconds", history.throttled.seconds()}};
  finding.cures = {{"see temperatures and the power mode", "headroom top", {}},
                   {"cool the board, or choose a lower power mode", "sudo nvpmodel -m MODE", {}}};
  return finding;
}

}  // namespace

std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name) {
  constexpr std::array kAll{
      oom_kills,           group_thrash, swap_thrash,      running_out,      levelled_off,
      cache_starves_nvmap, in_pieces,    little_available, swap_nearly_full, group_nearly_full,
      zram_missized,       unaccounted,  gpu_nearly_full,  desktop,          throttled};
  std::vector<Finding> findings;
  for (const auto look_for : kAll) {
    Found found = look_for(history);
    if (!found) continue;
    if (found->evidence.empty())
      found->evidence.push_back(
          {"", 0, fmt::format("{} samples over {}", history.samples, format_duration(history.duration()))});
    for (Evidence& evidence : found->evidence) evidence.file = name;
    findings.push_back(std::move(*found));
  }
  return findings;
}

}  // namespace headroom::doctor
