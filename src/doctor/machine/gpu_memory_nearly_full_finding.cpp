#include <fmt/format.h>

#include <algorithm>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {
namespace {

struct FullGpu {
  GpuSample gpu;
  Nanoseconds at;
  bool is_now = false;
  Bytes free;
};

// Those that were 95 % full at their worst moment, the one with the least left first.
std::vector<FullGpu> full_gpus(const MachineHistory& history) {
  std::vector<FullGpu> full;
  for (const auto& [index, fullest] : history.fullest_gpus) {
    const auto found = std::find_if(fullest.sample.gpus.begin(), fullest.sample.gpus.end(),
                                    [number = index](const GpuSample& each) {
                                      return each.index.value_or(0) == number && free_memory(each);
                                    });
    if (found == fullest.sample.gpus.end()) continue;
    const GpuSample& gpu = *found;
    if (!gpu.memory_total || gpu.memory_total->count <= 0) continue;
    const std::optional<Bytes> free = free_memory(gpu);
    if (!free || (*gpu.memory_total - *free).count < share_of(gpu.memory_total, 95)) continue;
    full.push_back({gpu, fullest.at, history.is_now(fullest), *free});
  }
  std::stable_sort(full.begin(), full.end(),
                   [](const FullGpu& x, const FullGpu& y) { return x.free < y.free; });
  return full;
}

}  // namespace

// Of a GPU with memory of its own; an integrated one has the machine's, which the others tell of.
std::optional<Finding> gpu_memory_nearly_full(const MachineHistory& history) {
  const std::vector<FullGpu> full = full_gpus(history);
  if (full.empty()) return std::nullopt;
  const auto& [gpu, at, is_now, free] = full.front();
  std::string title =
      fmt::format("GPU {}{} {} {} of {} free", gpu.index.value_or(0),
                  gpu.name.empty() ? "" : fmt::format(" ({})", gpu.name), is_now ? "has" : "had",
                  format_bytes(free), format_bytes(*gpu.memory_total));
  if (full.size() > 1)
    title += fmt::format(", and {} other{} hardly more", full.size() - 1, full.size() > 2 ? "s" : "");
  Finding finding = new_finding("gpu-memory-nearly-full", Severity::note, std::move(title),
                                "A program that starts now cannot allocate GPU memory. Programs that reserve "
                                "most of a GPU at start (JAX, TensorFlow, vLLM) also look like this.",
                                Confidence::possible);
  finding.figures = {{"gpu", gpu.index.value_or(0)},
                     {"free_bytes", free.count},
                     {"total_bytes", gpu.memory_total->count},
                     {"full_gpus", static_cast<std::int64_t>(full.size())}};
  if (!is_now) finding.evidence = moment(history, at, format_bytes(free) + " free");
  const std::vector<GpuProcess> processes = gpu.processes.value_or(std::vector<GpuProcess>{});
  const auto largest =
      std::max_element(processes.begin(), processes.end(), [](const GpuProcess& x, const GpuProcess& y) {
        return x.used.value_or(Bytes{}) < y.used.value_or(Bytes{});
      });
  if (is_now && largest != processes.end() && largest->used)
    finding.cures.push_back({fmt::format("end or move process {}, which holds the most", largest->pid),
                             fmt::format("kill {}", largest->pid), largest->used});
  finding.cures.push_back({"see which processes hold the memory", "headroom top", {}});
  return finding;
}

}  // namespace headroom::doctor
