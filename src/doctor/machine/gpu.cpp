// Findings about GPU memory and clocks.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"

namespace headroom::doctor {
namespace {

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
    const auto found = std::find_if(fullest.sample.gpus.begin(), fullest.sample.gpus.end(),
                                    [number = index](const GpuSample& each) {
                                      return each.index.value_or(0) == number && free_memory(each);
                                    });
    if (found == fullest.sample.gpus.end() || !found->memory_total || found->memory_total->count <= 0)
      continue;
    const Bytes free = *free_memory(*found);
    if ((*found->memory_total - free).count < share_of(found->memory_total, 95)) continue;
    full.push_back({*found, fullest.at, history.is_now(fullest), free});
  }
  std::stable_sort(full.begin(), full.end(),
                   [](const FullGpu& a, const FullGpu& b) { return a.free < b.free; });
  return full;
}

}  // namespace

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
  const auto largest =
      std::max_element(processes.begin(), processes.end(), [](const GpuProcess& a, const GpuProcess& b) {
        return a.used.value_or(Bytes{}) < b.used.value_or(Bytes{});
      });
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
