#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

// The search times algorithms that need much memory, and the arena keeps what they took.
std::optional<Finding> convolution_search(const ModelResult& model, const BenchResult&) {
  if (is_on_cpu(model) || !is_onnxruntime(model) || model.gpu_memory.empty()) return std::nullopt;
  if (model.settings.conv_search != ConvSearch::exhaustive || model.smallest_settings) return std::nullopt;
  const GpuMemory& gpu = model.gpu_memory.front();
  if (!gpu.loaded || !gpu.run_peak) return std::nullopt;
  const Bytes beyond = *gpu.run_peak - *gpu.loaded;
  constexpr std::int64_t kMuch = 256 << 20;
  if (beyond.count < kMuch || beyond < *gpu.loaded) return std::nullopt;
  Finding finding = new_finding("convolution-search", Severity::note,
                                fmt::format("{} needs {} on {} after loading, and {} more to run", model.name,
                                            format_bytes(*gpu.loaded), gpu.device, format_bytes(beyond)),
                                "The search for the fastest convolutions needs workspace, and the arena "
                                "keeps it. Or the activations are that large.",
                                Confidence::possible);
  finding.figures = {{"loaded_bytes", gpu.loaded->count}, {"run_peak_bytes", gpu.run_peak->count}};
  add_settings(finding, model, "choose convolutions by heuristics, without the search",
               "convolutions=heuristic");
  add_settings(finding, model, "search only convolutions that need little workspace", "workspace=small");
  add_settings(finding, model, "let the arena grow by the requested size only", "extend=same_as_requested");
  return finding;
}

}  // namespace headroom::doctor
