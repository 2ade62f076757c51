// To add a finding: write its function and add it to the list in machine_findings().
#include "doctor/machine/machine_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

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
  finding.figures.push_back({"fastest_process", name});
  finding.figures.push_back({"fastest_process_growth_bytes", grown.count});
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

// Findings about the growth of a machine's memory.

// Steady growth, with the time left if it is at most twice the observed time.
std::optional<Finding> memory_running_out(const MachineHistory& history) {
  const MachineSession* session = worst_session(history);
  if (session == nullptr) return std::nullopt;
  const auto &left = session->seconds_left.value, &per_hour = session->growth_per_hour.value;
  const bool goes_on = session == &history.session;
  constexpr double kSoon = 3600;
  Finding finding{.id = left ? "memory-running-out" : "memory-grows",
                  .severity = left && *left < kSoon ? Severity::severe : Severity::warning,
                  .title = title_of_growth(*session, goes_on),
                  .cause = "Memory in use grows steadily: a leak, an unbounded cache, or a log in memory.",
                  .confidence = Confidence::likely};
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
    return Finding{
        .id = "growth-levelled-off",
        .severity = Severity::note,
        .title = fmt::format("Memory grew by {} and then stayed the same", format_bytes({*high - *low})),
        .cause = "Arenas, caches or pools filled up. These samples show no leak.",
        .confidence = Confidence::likely,
        .figures = {{"growth_bytes", *high - *low}}};
  });
}

// Findings about GPU memory and clocks.

std::optional<Finding> page_cache_starves_nvmap(const MachineHistory& history) {
  if (!history.starved_free) return std::nullopt;
  const Bytes free = *history.starved_free, cache = *history.starved_cache;
  return Finding{
      .id = "page-cache-starves-nvmap",
      .title = fmt::format("Only {} were free for the GPU while the page cache held {}", format_bytes(free),
                           format_bytes(cache)),
      .cause = "NvMap uses free pages only, so a GPU allocation can fail while MemAvailable is large.",
      .confidence = Confidence::likely,
      .evidence = moment(history, history.starved_at, format_bytes(free) + " free"),
      .figures = {{"free_bytes", free.count},
                  {"cache_bytes", cache.count},
                  {"starved_seconds", history.starved.seconds()}},
      .cures = {{"drop the page cache before models are loaded",
                 "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches", cache},
                keep_pages_free(history.last.ram_total)}};
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
  Finding finding{
      .id = "gpu-memory-nearly-full",
      .severity = Severity::note,
      .title = fmt::format("GPU {}{} {} {} of {} free", gpu.index.value_or(0),
                           gpu.name.empty() ? "" : fmt::format(" ({})", gpu.name), is_now ? "has" : "had",
                           format_bytes(free), format_bytes(*gpu.memory_total)),
      .cause =
          "A program that starts now cannot allocate GPU memory. Programs that reserve most of a GPU at "
          "start (JAX, TensorFlow, vLLM) also look like this.",
      .confidence = Confidence::possible,
      .figures = {{"gpu", gpu.index.value_or(0)},
                  {"free_bytes", free.count},
                  {"total_bytes", gpu.memory_total->count},
                  {"full_gpus", static_cast<std::int64_t>(full.size())}}};
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
  return Finding{
      .id = "throttled",
      .title = fmt::format("The board or a GPU was throttled for {} of {}",
                           format_duration(history.throttled), format_duration(history.duration())),
      .cause = "Heat or a weak power supply reduced the clocks, so all work took longer.",
      .figures = {{"throttled_seconds", history.throttled.seconds()}},
      .cures = {{"see temperatures and the power mode", "headroom top"},
                {"cool the board, or choose a lower power mode", "sudo nvpmodel -m MODE"}}};
}

// Findings about memory that is short, in pieces, or of no process.

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
  if (sample.huge_pages_total != Bytes{}) add_figure(finding, "huge_pages_bytes", sample.huge_pages_total);
  if (sample.zram_used != Bytes{}) add_figure(finding, "zram_used_bytes", sample.zram_used);
  return finding;
}

std::optional<Finding> little_memory_left(const MachineHistory& history) {
  if (!history.fullest_memory) return std::nullopt;
  const SystemSample& sample = history.fullest_memory->sample;
  const Bytes available = *sample.ram_available, total = *sample.ram_total;
  if (available.count > share_of(total, 10)) return std::nullopt;
  // A log may lack the figures of swap, so absent figures do not mean that there is none.
  const bool no_swap = sample.swap_total == Bytes{};
  Finding finding{
      .id = no_swap ? "no-swap-no-reserve" : "little-memory-left",
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
  const bool is_poor = ratio < kWorthIt, is_large = total && used->count >= share_of(total, 25);
  if (!is_poor && !is_large) return std::nullopt;
  Finding finding{
      .id = is_poor ? "zram-saves-little" : "zram-takes-much",
      .title =
          fmt::format("zram uses {} of memory to store {}", format_bytes(*used), format_bytes(*original)),
      .cause = "The swapped memory does not compress well: weights and frames rarely do.",
      .figures = {{"original_bytes", original->count}, {"used_bytes", used->count}, {"ratio", ratio}},
      .cures = {make_swap_file(is_poor
                                   ? "use swap on a fast disk first, and disable zram from the next start "
                                     "(on a Jetson: sudo systemctl disable nvzramconfig)"
                                   : "use swap on a fast disk before zram",
                               total, SwapFile::before_others, used)}};
  if (is_poor) return finding;
  finding.title = fmt::format("zram uses {} of {} of memory", format_bytes(*used), format_bytes(*total));
  finding.cause =
      "Memory that is swapped into zram stays in RAM, and GPU memory cannot be swapped. zram is larger than "
      "this machine can spare.";
  finding.confidence = Confidence::likely;
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

}  // namespace

std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name) {
  std::vector<Finding> findings;
  // In the order of the report among findings of equal severity.
  for (const auto look_for : {kernel_oom_kill, control_group_thrash, swap_thrash, memory_running_out,
                              growth_levelled_off, page_cache_starves_nvmap, free_memory_in_pieces,
                              little_memory_left, swap_nearly_full, control_group_nearly_full, zram_missized,
                              memory_of_no_process, gpu_memory_nearly_full, desktop_running, throttled})
    if (std::optional<Finding> found = look_for(history)) findings.push_back(std::move(*found));
  complete_evidence(findings, name, samples_words(history));
  return findings;
}

}  // namespace headroom::doctor
