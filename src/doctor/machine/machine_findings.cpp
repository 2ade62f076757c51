// To add a finding: write its function and add it to the list in machine_findings().
#include "doctor/machine/machine_history.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/cure_commands.h"
#include "monitoring/series_growth.h"

namespace headroom::doctor {
namespace {

// Shorter thrashing of a machine or a control group is neither a finding nor an alert.
constexpr Nanoseconds kLeastThrash{3'000'000'000};

// "one sample", "40 samples over 1.5 min in 2 sessions".
std::string samples_words(const MachineHistory& history) {
  std::string words = history.samples == 1 ? "one sample" : fmt::format("{} samples", history.samples);
  if (history.duration().count > 0) words += " over " + format_duration(history.duration());
  if (history.sessions() > 1) words += fmt::format(" in {} sessions", history.sessions());
  return words;
}

bool grows_much(const MachineSession& session) {
  constexpr double kLongEnough = 60;
  return session.seconds_left.value ||
         (session.growing_for.seconds() >= kLongEnough &&
          session.grown() > static_cast<double>(share_of(session.ram_total, 2)));
}

// The session with the worst growth.
const MachineSession* worst_session(const MachineHistory& history) {
  const MachineSession* worst = grows_much(history.session) ? &history.session : nullptr;
  for (const MachineSession& session : history.earlier)
    if (grows_much(session) && (!worst || session.is_worse_than(*worst))) worst = &session;
  return worst;
}

std::string title_of_growth(const MachineSession& session, bool goes_on) {
  const auto& left = session.seconds_left.value;
  if (!left)
    return fmt::format("Memory {} steadily, by {} per hour", goes_on ? "grows" : "grew",
                       format_bytes({static_cast<std::int64_t>(*session.growth_per_hour.value)}));
  return fmt::format("At this growth, {} {} be exhausted {} after the end of {}",
                     session.seconds_left.detail.empty() ? "memory" : session.seconds_left.detail,
                     goes_on ? "will" : "would",
                     format_duration({static_cast<std::int64_t>(std::min(*left, 1e9) * 1e9)}),
                     goes_on ? "these samples" : "a session");
}

void add_fastest_process(const MachineSession& session, Finding& finding) {
  const auto most = fastest_process(session);
  if (most == session.processes.end() || most->second.grown().count <= 0) {
    finding.cures.push_back(
        {"find out which process grows", "headroom watch --processes 10 --output watch.jsonl"});
    return;
  }
  const std::string& name = most->first.name;
  const Bytes grown = most->second.grown();
  // If one process has most of the growth, the leak is its own.
  if (2 * static_cast<double>(grown.count) >= session.grown() && session.grown() > 0) {
    finding.title += fmt::format("; most of the growth is in {}", name);
    finding.figures.push_back({"level", "process"});
  }
  add_figures(finding, "fastest_process", name, "fastest_process_growth_bytes", grown);
  finding.cures.push_back(
      {fmt::format("examine {}, which grew most", name), "headroom trace -- COMMAND", grown});
}

// "636.0 MiB available, 12.000 s after the first of 40 samples over 1.5 min". Empty for a single sample.
std::vector<Evidence> moment(const MachineHistory& history, Nanoseconds at, const std::string& what) {
  if (history.duration().count <= 0) return {};
  const std::string when = at.count == 0 ? "in the first" : format_duration(at) + " after the first";
  return {{.text = fmt::format("{}, {} of {}", what, when, samples_words(history))}};
}

// "40 samples of session 1 of 2".
std::vector<Evidence> of_session(const MachineHistory& history, const MachineSession& session) {
  return {{.text = fmt::format("{} sample{} of session {} of {}", session.samples,
                               session.samples == 1 ? "" : "s", session.number, history.sessions())}};
}

// The finding of the newest session that has one. An earlier session is its evidence.
std::optional<Finding> in_newest_session(const MachineHistory& history, const auto& look_for) {
  if (auto found = look_for(history.session, true)) return found;
  for (auto session = history.earlier.rbegin(); session != history.earlier.rend(); ++session)
    if (auto found = look_for(*session, false)) {
      found->evidence = of_session(history, *session);
      return found;
    }
  return std::nullopt;
}

// Steady growth, with the time left if it is at most twice the observed time.
std::optional<Finding> memory_running_out(const MachineHistory& history) {
  const MachineSession* session = worst_session(history);
  if (session == nullptr) return std::nullopt;
  const auto &left = session->seconds_left.value, &per_hour = session->growth_per_hour.value;
  const bool goes_on = session == &history.session;
  constexpr double kSoon = 3600;
  Finding finding =
      finding_of(left ? "memory-running-out" : "memory-grows",
                 left && *left < kSoon ? Severity::severe : Severity::warning, Confidence::likely,
                 title_of_growth(*session, goes_on),
                 "Memory in use grows steadily: a leak, an unbounded cache, or a log in memory.");
  if (!goes_on) finding.evidence = of_session(history, *session);
  if (left) finding.figures.push_back({"left_seconds", *left});
  if (per_hour) finding.figures.push_back({"growth_per_hour_bytes", static_cast<std::int64_t>(*per_hour)});
  add_fastest_process(*session, finding);
  return finding;
}

std::optional<Finding> growth_levelled_off(const MachineHistory& history) {
  return in_newest_session(history, [](const MachineSession& session, bool) -> std::optional<Finding> {
    if (session.seconds_left.value || session.growth_per_hour.value.value_or(0) > 0) return std::nullopt;
    const double least = static_cast<double>(std::max(share_of(session.ram_total, 2), mebibytes(64).count));
    std::vector<std::int64_t> cycles, used;
    for (const monitoring::SeriesCurve::Point& point : session.used.points()) {
      cycles.push_back(std::ssize(used));
      used.push_back(static_cast<std::int64_t>(point.mean));
    }
    const auto growth = monitoring::growth_of(cycles, used, least);
    if (growth.growth != monitoring::Growth::grew_then_stayed) return std::nullopt;
    const auto [low, high] = std::ranges::minmax_element(used);
    return finding_of("growth-levelled-off", Severity::note, Confidence::likely,
                      fmt::format("Memory grew by {} and then stayed the same", format_bytes({*high - *low})),
                      "Arenas, caches or pools filled up. These samples show no leak.",
                      figures("growth_bytes", *high - *low));
  });
}

std::optional<Finding> page_cache_starves_nvmap(const MachineHistory& history) {
  if (!history.starved_free) return std::nullopt;
  const Bytes free = *history.starved_free, cache = *history.starved_cache;
  return finding_of(
      "page-cache-starves-nvmap", Severity::warning, Confidence::likely,
      fmt::format("Only {} were free for the GPU while the page cache held {}", format_bytes(free),
                  format_bytes(cache)),
      "NvMap uses free pages only, so a GPU allocation can fail while MemAvailable is large.",
      figures("free_bytes", free, "cache_bytes", cache, "starved_seconds", history.starved.seconds()),
      {{"drop the page cache before models are loaded", "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
        cache},
       keep_pages_free(history.last.ram_total)},
      moment(history, history.starved_at, format_bytes(free) + " free"));
}

// For discrete GPUs that were 95 % full at their worst moment, the one with the least free memory first. An
// integrated GPU uses the machine's memory, which has findings of its own.
std::optional<Finding> gpu_memory_nearly_full(const MachineHistory& history) {
  std::vector<const MomentOf<GpuSample>*> full;
  for (const auto& [index, fullest] : history.fullest_gpus)
    if (const auto& total = fullest.sample.memory_total;
        total->count > 0 && (*total - *free_memory(fullest.sample)).count >= share_of(total, 95))
      full.push_back(&fullest);
  if (full.empty()) return std::nullopt;
  const auto& fullest =
      **std::ranges::min_element(full, std::less{}, [](const auto* one) { return free_memory(one->sample); });
  const GpuSample& gpu = fullest.sample;
  const Bytes free = *free_memory(gpu);
  const bool is_now = history.is_now(fullest);
  Finding finding =
      finding_of("gpu-memory-nearly-full", Severity::note, Confidence::possible,
                 fmt::format("GPU {}{} {} {} of {} free", gpu.index.value_or(0),
                             gpu.name.empty() ? "" : fmt::format(" ({})", gpu.name), is_now ? "has" : "had",
                             format_bytes(free), format_bytes(*gpu.memory_total)),
                 "A program that starts now cannot allocate GPU memory. Programs that reserve most of a GPU "
                 "at start (JAX, TensorFlow, vLLM) also look like this.",
                 figures("gpu", gpu.index.value_or(0), "free_bytes", free, "total_bytes", *gpu.memory_total,
                         "full_gpus", static_cast<std::int64_t>(full.size())));
  if (full.size() > 1)
    finding.title += fmt::format(", and {} other{} hardly more", full.size() - 1, full.size() > 2 ? "s" : "");
  if (!is_now) finding.evidence = moment(history, fullest.at, format_bytes(free) + " free");
  const std::vector<GpuProcess> processes = gpu.processes.value_or(std::vector<GpuProcess>{});
  const auto largest = std::ranges::max_element(
      processes, std::less{}, [](const GpuProcess& one) { return one.used.value_or(Bytes{}); });
  if (is_now && largest != processes.end() && largest->used)
    finding.cures.push_back({fmt::format("end or move process {}, which holds the most", largest->pid),
                             fmt::format("kill {}", largest->pid), largest->used});
  finding.cures.push_back(find_holders());
  return finding;
}

std::optional<Finding> throttled(const MachineHistory& history) {
  if (history.throttled.count == 0) return std::nullopt;
  return finding_of("throttled", Severity::warning, Confidence::certain,
                    fmt::format("The board or a GPU was throttled for {} of {}",
                                format_duration(history.throttled), format_duration(history.duration())),
                    "Heat or a weak power supply reduced the clocks, so all work took longer.",
                    figures("throttled_seconds", history.throttled.seconds()),
                    {{"see temperatures and the power mode", "headroom top"},
                     {"cool the board, or choose a lower power mode", "sudo nvpmodel -m MODE"}});
}

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
  // A DGX Spark (GB10) has an integrated GPU and no NvMap; no Jetson has as much memory, except Thor.
  const bool has_nvmap = sample.nvmap_used || *sample.ram_total < gibibytes(100);
  Finding finding =
      finding_of("memory-of-no-process", Severity::note, Confidence::possible,
                 fmt::format("{} of {} {} in no figure of a process, a cache or the kernel",
                             format_bytes(rest), format_bytes(*sample.ram_total), is_now ? "are" : "were"),
                 "Drivers hold it. With an integrated GPU, it is GPU memory, which is not in any process's "
                 "resident memory. On a virtual machine, it is memory that the host reclaimed.",
                 figures("unaccounted_bytes", rest, "total_bytes", *sample.ram_total),
                 {{"see how much memory the GPU driver lists for each process (as root)",
                   has_nvmap ? "sudo cat /sys/kernel/debug/nvmap/iovmm/clients" : "sudo nvidia-smi"},
                  {"log it together with the GPU's figures",
                   "sudo headroom watch --processes 10 --output watch.jsonl"}});
  if (sample.huge_pages_total != Bytes{}) add_figures(finding, "huge_pages_bytes", sample.huge_pages_total);
  if (sample.zram_used != Bytes{}) add_figures(finding, "zram_used_bytes", sample.zram_used);
  return finding;
}

// Linux 7.0 keeps memory for its kexec handover (KHO) and gives it to the page allocator as CMA pages, which
// CmaTotal leaves out. They are free, but no device can pin them for long.
std::optional<Finding> cma_of_handover(const MachineHistory& history) {
  const auto &free = history.last.cma_free, &total = history.last.cma_total;
  if (!free || !total || *free <= *total) return std::nullopt;
  return finding_of(
      "cma-above-total", Severity::note, Confidence::likely,
      fmt::format("CmaFree ({}) is above CmaTotal ({})", format_bytes(*free), format_bytes(*total)),
      "The kernel reserved this memory for its kexec handover (KHO, on by default in Ubuntu's Linux 7.0). "
      "MemFree includes it, but devices cannot pin it: RDMA and GPU drivers may fail with ENOMEM.",
      figures("cma_free_bytes", *free, "cma_total_bytes", *total, "handover_bytes", *free - *total),
      {{"disable the handover on the kernel's command line, then restart", "kho=off", *free - *total},
       {"check whether the handover is on", "cat /proc/cmdline; sudo dmesg | grep -i kho"}});
}

std::optional<Finding> little_memory_left(const MachineHistory& history) {
  if (!history.fullest_memory) return std::nullopt;
  const SystemSample& sample = history.fullest_memory->sample;
  const Bytes available = *sample.ram_available, total = *sample.ram_total;
  if (available.count > share_of(total, 10)) return std::nullopt;
  // A log may lack the figures of swap, so absent figures do not mean that there is none.
  const bool no_swap = sample.swap_total == Bytes{};
  Finding finding = finding_of(
      no_swap ? "no-swap-no-reserve" : "little-memory-left", Severity::warning, Confidence::certain,
      fmt::format("Only {} of {} were available{}", format_bytes(available), format_bytes(total),
                  no_swap ? ", and there is no swap" : ""),
      no_swap ? "At the next peak, the kernel's OOM killer ends a process. Keep a reserve of 15 %, and use "
                "swap for idle memory."
              : fmt::format(
                    "Keep a reserve of 15 %. The next peak goes to swap{}, or the kernel kills a process.",
                    sample.swap_total ? "" : ", if there is any"),
      figures("available_bytes", available, "total_bytes", total), {find_holders()},
      moment(history, history.fullest_memory->at, format_bytes(available) + " available"));
  if (no_swap) finding.cures.push_back(make_swap_file("add swap as a reserve", total));
  return finding;
}

std::optional<Finding> free_memory_in_pieces(const MachineHistory& history) {
  constexpr Nanoseconds kLeast{30'000'000'000};  // as the alert of this name
  if (history.in_pieces < kLeast) return std::nullopt;
  return finding_of(
      "free-memory-in-pieces", Severity::warning, Confidence::likely,
      fmt::format(
          "The largest free block was up to {:.1f} times smaller than before, with the same free memory",
          history.worst_factor),
      "Physical memory is fragmented: large device allocations can fail.",
      figures("worst_factor", history.worst_factor),
      {{"compact free pages into large blocks", "echo 1 | sudo tee /proc/sys/vm/compact_memory"}});
}

// At the end of a session, memory that no figure of the kernel accounts for.
std::optional<Finding> memory_of_no_process(const MachineHistory& history) {
  return in_newest_session(history, [&](const MachineSession& session, bool is_last) {
    return unaccounted_memory(is_last ? history.last : session.last, is_last);
  });
}

std::optional<Finding> desktop_running(const MachineHistory& history) {
  if (!history.largest_desktop) return std::nullopt;
  const SystemSample& sample = history.largest_desktop->sample;
  const auto [sum, names] = desktop_in(sample);
  constexpr Bytes kSmallMachine = gibibytes(33);
  if (sum < mebibytes(32) || !sample.ram_total || kSmallMachine < *sample.ram_total) return std::nullopt;
  return finding_of("desktop-running", Severity::note, Confidence::certain,
                    fmt::format("A desktop runs and holds about {}: {}", format_bytes(sum), names),
                    "A machine that only runs inference needs no desktop.", figures("desktop_bytes", sum),
                    {{"stop the desktop", "sudo systemctl isolate multi-user.target", sum},
                     {"boot without it from now on", "sudo systemctl set-default multi-user.target"}});
}

std::optional<Finding> swap_thrash(const MachineHistory& history) {
  if (history.thrashed < kLeastThrash || history.group_thrashed >= kLeastThrash) return std::nullopt;
  return finding_of(
      "swap-thrash", Severity::severe, Confidence::likely,
      fmt::format("The machine thrashed for {}: it re-read up to {:.0f} pages per second",
                  format_duration(history.thrashed), history.most_thrash),
      "Programs use more memory than the machine has. The kernel drops or swaps out pages, and must read "
      "them again at once.",
      figures("thrash_seconds", history.thrashed.seconds(), "most_pages_per_second", history.most_thrash,
              "most_swapped_bytes", history.most_swapped),
      {{"see which processes hold the memory, and make them smaller", "headroom top"},
       {"limit the largest process, so that only this process fails",
        "headroom run --limit SIZE -- COMMAND"}},
      moment(history, history.thrashed_at, fmt::format("{:.0f} pages per second", history.most_thrash)));
}

// Full swap alone may hold idle memory, and with little memory alone there is still swap: both at one moment.
std::optional<Finding> swap_nearly_full(const MachineHistory& history) {
  if (!history.fullest_swap) return std::nullopt;
  const SystemSample& sample = history.fullest_swap->sample;
  const Bytes used = *sample.swap_used, available = *sample.ram_available;
  if (used.count < share_of(sample.swap_total, 90)) return std::nullopt;
  return finding_of(
      "swap-nearly-full", Severity::warning, Confidence::likely,
      fmt::format("{} of {} of swap were in use, and {} of {} of memory were available", format_bytes(used),
                  format_bytes(*sample.swap_total), format_bytes(available), format_bytes(*sample.ram_total)),
      "Swap is too small for the idle memory. At the next peak, the kernel's OOM killer ends a process.",
      figures("swap_used_bytes", used, "swap_bytes", sample.swap_total, "available_bytes", available),
      {find_holders(), make_swap_file("add swap on a disk", sample.ram_total, SwapFile::another)},
      moment(history, history.fullest_swap->at, format_bytes(used) + " of swap used"));
}

std::optional<Finding> zram_missized(const MachineHistory& history) {
  if (!history.largest_zram) return std::nullopt;
  const SystemSample& sample = history.largest_zram->sample;
  const auto &original = sample.zram_original, &used = sample.zram_used, &total = sample.ram_total;
  if (!original || !used || used->count < mebibytes(64).count) return std::nullopt;
  const double ratio = static_cast<double>(original->count) / static_cast<double>(used->count);
  constexpr double kWorthIt = 1.5;
  const bool is_poor = ratio < kWorthIt, is_large = total && used->count >= share_of(total, 25);
  if (!is_poor && !is_large) return std::nullopt;
  Finding finding = finding_of(
      is_poor ? "zram-saves-little" : "zram-takes-much", Severity::warning, Confidence::certain,
      fmt::format("zram uses {} of memory to store {}", format_bytes(*used), format_bytes(*original)),
      "The swapped memory does not compress well: weights and frames rarely do.",
      figures("original_bytes", *original, "used_bytes", *used, "ratio", ratio),
      {make_swap_file(is_poor ? "use swap on a fast disk first, and disable zram from the next start (on a "
                                "Jetson: sudo systemctl disable nvzramconfig)"
                              : "use swap on a fast disk before zram",
                      total, SwapFile::before_others, used)});
  if (is_poor) return finding;
  finding.title = fmt::format("zram uses {} of {} of memory", format_bytes(*used), format_bytes(*total));
  finding.cause =
      "Memory that is swapped into zram stays in RAM, and GPU memory cannot be swapped. zram is larger than "
      "this machine can spare.";
  finding.confidence = Confidence::likely;
  finding.cures.push_back({"see which processes were swapped out", "headroom top"});
  return finding;
}

std::optional<Finding> kernel_oom_kill(const MachineHistory& history) {
  std::vector<Evidence> kills;
  for (const KernelEvent& event : history.kernel_events)
    if (event.kind == KernelEventKind::oom_kill) kills.push_back({.text = event.text});
  if (history.oom_kills == 0 && kills.empty()) return std::nullopt;
  // The machine's counter includes kills in other control groups.
  const bool is_elsewhere = history.all_kills_were_elsewhere();
  Finding finding = finding_of(
      "kernel-oom-kill", is_elsewhere ? Severity::warning : Severity::severe, Confidence::certain,
      is_elsewhere ? "The kernel killed a process outside this control group because memory ran out"
                   : "The kernel killed a process because memory ran out",
      is_elsewhere ? "Another control group was at its limit, or the machine was out of memory."
                   : "The machine or a control group was out of memory.",
      figures("oom_kills", history.oom_kills, "group_oom_kills", history.group_oom_kills),
      {{"read the kernel's report: how much memory each process held", "dmesg | headroom doctor -"},
       {"plan which programs run together, with a reserve", "headroom plan BUDGET.toml"}},
      std::move(kills));
  finding.times = std::max<std::int64_t>(1, history.oom_kills);
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
  return finding_of(
      "control-group-thrash", is_severe ? Severity::severe : Severity::warning, Confidence::likely,
      fmt::format("At its limit of {}, the control group re-read up to {:.0f} pages per second, for {}",
                  format_bytes(limit), history.most_group_pages, format_duration(history.group_thrashed)),
      "Its working set, such as mapped weights and code, does not fit: the kernel drops pages and reads them "
      "again at once. The machine has free memory, but the group does not.",
      figures("level", "control group", "limit_bytes", limit, "thrash_seconds",
              history.group_thrashed.seconds(), "most_pages_per_second", history.most_group_pages,
              "most_waiting_percent", 100 * history.most_group_waiting),
      {{"double the limit, and repeat until no pages are re-read",
        fmt::format("headroom run --limit {}MiB -- COMMAND", size)},
       {"double a container's limit", docker_update({size, limit, {}}, "CONTAINER")},
       {"run fewer models at once in the group", "headroom plan BUDGET.toml"}});
}

// Above memory.high, the kernel makes each allocation of the group wait until it has reclaimed memory.
// Without swap it cannot reclaim anonymous memory: the tasks then wait without an end, and nothing is killed.
std::optional<Finding> control_group_throttled(const MachineHistory& history) {
  if (!history.throttled_group) return std::nullopt;
  const SystemSample& sample = history.throttled_group->sample;
  const CgroupMemory& group = *sample.cgroup;
  const Bytes held = *group.current, high = *group.high;
  constexpr double kMuchWaiting = 10;  // percent of the time
  const double waiting = sample.psi_full_avg10.value_or(0);
  const std::int64_t events = group.high_events.value_or(0);
  const bool is_now = history.is_now(*history.throttled_group);
  if (events == 0 || held.count < share_of(high, 95) || (held <= high && waiting < kMuchWaiting))
    return std::nullopt;
  // A first try: the samples do not show how much the group would use without this limit.
  const std::int64_t size = std::max(held, high).count / mebibytes(1).count / 2 * 3;
  Finding finding = finding_of(
      "control-group-throttled", waiting < kMuchWaiting ? Severity::warning : Severity::severe,
      Confidence::likely,
      fmt::format("The control group {} {}, {} its memory.high of {}", is_now ? "holds" : "held",
                  format_bytes(held), held > high ? format_bytes(held - high) + " above" : "at",
                  format_bytes(high)),
      fmt::format("Above memory.high (MemoryHigh of systemd), the kernel slows the group down instead of "
                  "killing a process. It did so {} times.{}{}",
                  events,
                  waiting >= kMuchWaiting
                      ? fmt::format(" All tasks waited for memory in {:.0f} % of the time.", waiting)
                      : "",
                  sample.swap_total == Bytes{}
                      ? " Without swap, it can free nothing but file pages, so the group may never recover."
                      : ""),
      figures("current_bytes", held, "high_bytes", high, "high_events", events, "waiting_percent", waiting),
      {{"raise the service's MemoryHigh by half, and repeat until the group stays below",
        fmt::format("sudo systemctl set-property NAME MemoryHigh={}M", size)},
       {"or remove it, and set a hard limit: the service then fails and restarts",
        fmt::format("sudo systemctl set-property NAME MemoryHigh=infinity MemoryMax={}M", size)},
       find_holders()});
  if (!is_now) finding.evidence = moment(history, history.throttled_group->at, format_bytes(held) + " held");
  return finding;
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
  Finding finding = finding_of(
      "control-group-nearly-full", Severity::warning, Confidence::certain,
      fmt::format("The control group {} {} of its {}", is_now ? "holds" : "held", held,
                  format_bytes(*group->limit)),
      "At the limit, the kernel kills a process of the group, even if the machine has free memory.",
      figures("anonymous_bytes", *group->anonymous, "limit_bytes", *group->limit),
      {{"raise the container's limit, so that the group uses three quarters of it",
        docker_update({size, *group->limit, {}}, "CONTAINER")},
       {"or raise a service's limit", fmt::format("sudo systemctl set-property NAME MemoryMax={}M", size)},
       find_holders()});
  if (!is_now) finding.evidence = moment(history, history.fullest_group->at, held + " of anonymous memory");
  return finding;
}

}  // namespace

std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name) {
  std::vector<Finding> findings;
  // In the order of the report among findings of equal severity.
  for (const auto look_for :
       {kernel_oom_kill, control_group_thrash, control_group_throttled, swap_thrash, memory_running_out,
        growth_levelled_off, page_cache_starves_nvmap, free_memory_in_pieces, little_memory_left,
        swap_nearly_full, control_group_nearly_full, zram_missized, memory_of_no_process, cma_of_handover,
        gpu_memory_nearly_full, desktop_running, throttled})
    if (std::optional<Finding> found = look_for(history)) findings.push_back(std::move(*found));
  complete_evidence(findings, name, samples_words(history));
  return findings;
}

}  // namespace headroom::doctor
