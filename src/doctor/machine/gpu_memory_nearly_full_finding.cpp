#include <fmt/format.h>

#include <algorithm>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

// Of a GPU with memory of its own; an integrated one has the machine's, which the others tell of.
std::optional<Finding> gpu_memory_nearly_full(const MachineHistory& history) {
  for (const auto& [index, fullest] : history.fullest_gpus) {
    const auto found = std::find_if(fullest.sample.gpus.begin(), fullest.sample.gpus.end(),
                                    [number = index](const GpuSample& each) {
                                      return each.index.value_or(0) == number && each.memory_used;
                                    });
    if (found == fullest.sample.gpus.end()) continue;
    const GpuSample& gpu = *found;
    if (!gpu.memory_total || gpu.memory_total->count <= 0) continue;
    if (gpu.memory_used->count < share_of(gpu.memory_total, 95)) continue;
    const bool is_now = fullest.sample.time == history.last_time;
    const Bytes free = *gpu.memory_total - *gpu.memory_used;
    Finding finding =
        new_finding("gpu-memory-nearly-full", Severity::note,
                    fmt::format("GPU {}{} {} {} of {} free", gpu.index.value_or(0),
                                gpu.name.empty() ? "" : fmt::format(" ({})", gpu.name),
                                is_now ? "has" : "had", format_bytes(free), format_bytes(*gpu.memory_total)),
                    "What starts now finds no room. Programs that take most of a GPU at their "
                    "start (JAX, TensorFlow, vLLM) "
                    "look like this when all is well.",
                    Confidence::possible);
    finding.figures = {
        {"gpu", gpu.index.value_or(0)}, {"free_bytes", free.count}, {"total_bytes", gpu.memory_total->count}};
    if (!is_now) finding.evidence = moment(history, fullest.at, format_bytes(free) + " free");
    const std::vector<GpuProcess> processes = gpu.processes.value_or(std::vector<GpuProcess>{});
    const auto largest =
        std::max_element(processes.begin(), processes.end(), [](const GpuProcess& x, const GpuProcess& y) {
          return x.used.value_or(Bytes{}) < y.used.value_or(Bytes{});
        });
    if (is_now && largest != processes.end() && largest->used)
      finding.cures.push_back({fmt::format("end or move process {}, which holds most", largest->pid),
                               fmt::format("kill {}", largest->pid), *largest->used});
    finding.cures.push_back({"see who holds it", "headroom top", {}});
    return finding;
  }
  return std::nullopt;
}

}  // namespace headroom::doctor
