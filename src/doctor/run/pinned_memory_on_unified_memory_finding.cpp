#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::optional<Finding> pinned_memory_on_unified_memory(const ModelResult& model, const BenchResult&) {
  for (const GpuMemory& gpu : model.gpu_memory) {
    if (!gpu.is_integrated.value_or(false) || !gpu.pinned_host ||
        gpu.pinned_host->count < kWorthTellingOfModels)
      continue;
    Finding finding = new_finding(
        "pinned-memory-on-unified-memory", Severity::warning,
        fmt::format(
            "{} holds {} of pinned memory besides the memory of {}, which is the same physical memory",
            model.name, format_bytes(*gpu.pinned_host), gpu.device),
        "Pinned memory makes copies to a GPU fast. An integrated GPU needs no copy: the same memory then "
        "holds the data twice, and the kernel cannot swap pinned pages.",
        Confidence::likely);
    finding.figures = {{"pinned_host_bytes", gpu.pinned_host->count}};
    finding.cures = {
        {"use one buffer for CPU and GPU", "cudaHostAlloc(…, cudaHostAllocMapped)", gpu.pinned_host},
        {"load data without pinning", "DataLoader(pin_memory=False)", {}}};
    return finding;
  }
  return std::nullopt;
}

}  // namespace headroom::doctor
