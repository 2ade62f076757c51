#include "doctor/machine/machine_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "doctor/cure_commands.h"
#include "monitoring/series_growth.h"

namespace headroom::doctor {
namespace {

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

struct FullGpu {
  GpuSample gpu;
  Nanoseconds at;
  bool is_now = false;
  Bytes free;
};

// GPUs that were 95 % full at their worst moment, the one with the least free memory first.
std::vector<FullGpu> full_gpus(const MachineHistory& history) {
  std::vector<FullGpu> full;
  for (const auto& [index, fullest] : history.fullest_gpus) {
    const auto found = std::ranges::find_if(fullest.sample.gpus, [number = index](const GpuSample& each) {
      return each.index.value_or(0) == number && free_memory(each);
    });
    if (found == fullest.sample.gpus.end() || !found->memory_total || found->memory_total->count <= 0)
      continue;
    const Bytes free = *free_memory(*found);
    if ((*found->memory_total - free).count < share_of(found->memory_total, 95)) continue;
    full.push_back({*found, fullest.at, history.is_now(fullest), free});
  }
  std::ranges::stable_sort(full, std::less{}, &FullGpu::free);
  return full;
}

}  // namespace

std::vector<Evidence> moment(const MachineHistory& history, Nanoseconds at, const std::string& what) {
  if (history.duration().count <= 0) return {};
  const std::string when = at.count == 0 ? "in the first" : format_duration(at) + " after the first";
  return {{.text = fmt::format("{}, {} of {}", what, when, samples_words(history))}};
}

std::vector<Evidence> of_session(const MachineHistory& history, const MachineSession& session) {
  return {{.text = fmt::format("{} sample{} of session {} of {}", session.samples,
                               session.samples == 1 ? "" : "s", session.number, history.sessions())}};
}

std::optional<Finding> in_newest_session(
    const MachineHistory& history,
    const std::function<std::optional<Finding>(const MachineSession&, bool is_last)>& look_for) {
  if (auto found = look_for(history.session, true)) return found;
  for (auto session = history.earlier.rbegin(); session != history.earlier.rend(); ++session)
    if (auto found = look_for(*session, false)) {
      found->evidence = of_session(history, *session);
      return found;
    }
  return std::nullopt;
}

std::int64_t share_of(const std::optional<Bytes>& total, std::int64_t percent) {
  return total ? total->count / 100 * percent : 0;
}

std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name) {
  std::vector<Finding> findings;
  for (MachineFinding* look_for : kMachineFindings)
    if (std::optional<Finding> found = look_for(history)) {
      complete_evidence(*found, name, samples_words(history));
      findings.push_back(std::move(*found));
    }
  return findings;
}

std::vector<Finding> findings_during_run(const MachineHistory& history, const std::string& name) {
  // A model that the kernel killed is the report's model-out-of-memory.
  constexpr std::string_view kOfTheRun[] = {"memory-running-out", "memory-grows", "growth-levelled-off",
                                            "throttled", "kernel-oom-kill"};
  std::vector<Finding> findings = machine_findings(history, name);
  std::erase_if(findings, [&](const Finding& finding) {
    return std::ranges::find(kOfTheRun, finding.id) != std::end(kOfTheRun);
  });
  return findings;
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
      .severity = Severity::warning,
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

// For discrete GPUs. An integrated GPU uses the machine's memory, which has findings of its own.
std::optional<Finding> gpu_memory_nearly_full(const MachineHistory& history) {
  const std::vector<FullGpu> full = full_gpus(history);
  if (full.empty()) return std::nullopt;
  const auto& [gpu, at, is_now, free] = full.front();
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
  if (!is_now) finding.evidence = moment(history, at, format_bytes(free) + " free");
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
      .severity = Severity::warning,
      .title = fmt::format("The board or a GPU was throttled for {} of {}",
                           format_duration(history.throttled), format_duration(history.duration())),
      .cause = "Heat or a weak power supply reduced the clocks, so all work took longer.",
      .figures = {{"throttled_seconds", history.throttled.seconds()}},
      .cures = {{"see temperatures and the power mode", "headroom top"},
                {"cool the board, or choose a lower power mode", "sudo nvpmodel -m MODE"}}};
}

}  // namespace headroom::doctor
