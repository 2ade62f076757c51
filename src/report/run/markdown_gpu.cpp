// What a run on a GPU showed: by the ledger that stands in front of the driver, and by the driver itself.
#include <fmt/format.h>

#include "report/markdown_text.h"
#include "report/run/markdown_sections.h"
#include "report/words.h"

namespace headroom::report {
namespace {

std::string memory_of(const GpuMemory& gpu) {
  MarkdownTable table(1, {"Phase", "Requested", "Driver's figure", "Context, modules"});
  const auto add = [&](std::string phase, const std::optional<Bytes>& ours,
                       const std::optional<Bytes>& drivers) {
    if (!ours && !drivers) return;
    const auto difference = ours && drivers ? std::optional(*drivers - *ours) : std::nullopt;
    table.add({std::move(phase), words_for(ours), words_for(drivers), words_for(difference)});
  };
  add("Runtime loaded", gpu.runtime, gpu.process_runtime);
  add("Model loaded", gpu.loaded, gpu.process_loaded);
  add("**Load peak**", gpu.load_peak, std::nullopt);
  add("End of the run", gpu.running, gpu.process_running);
  add("**Run peak**", gpu.run_peak, std::nullopt);
  add("After unload", gpu.residual, gpu.process_residual);
  return table.empty() ? "" : table.text();
}

std::string heading_of(const GpuMemory& gpu) {
  std::string text = fmt::format("**Memory of {}**", escaped(gpu.device));
  if (!gpu.name.empty()) text += fmt::format(" ({})", escaped(gpu.name));
  if (gpu.limit)
    text += fmt::format(", {} of {}",
                        gpu.within_limit == false ? "❌ over the limit"
                        : gpu.within_limit        ? "✅ within the limit"
                                                  : "peak unknown",
                        format_bytes(*gpu.limit));
  if (gpu.refused > 0)
    text += fmt::format(", {} refused ({})", counted(gpu.refused, "request"), words_for(gpu.refused_bytes));
  if (gpu.is_integrated == true)
    text += ". This GPU uses host memory: do not add these figures to resident memory";
  return text;
}

}  // namespace

std::string gpu_tables(const ModelResult& model) {
  std::string text;
  for (const GpuMemory& gpu : model.gpu_memory) {
    text += heading_of(gpu) + "\n\n" + memory_of(gpu);
    if (gpu.pinned_host)
      text += fmt::format("Also {} of pinned host memory.\n\n", format_bytes(*gpu.pinned_host));
  }
  if (model.placement) {
    text += fmt::format("Nodes: {} on the GPU, {} on the CPU", model.placement->on_device,
                        model.placement->on_cpu);
    if (!model.placement->on_cpu_kinds.empty())
      text += fmt::format(" ({})", escaped(model.placement->on_cpu_kinds));
    text += ".\n\n";
  }
  return text;
}

std::string gpu_limit_lines(const BenchResult& result) {
  if (!result.gpu_limit) return {};
  const Limit& limit = *result.gpu_limit;
  std::string text = fmt::format("- **GPU Memory Limit**: {}, {} by {}", format_bytes(limit.bytes),
                                 name_of(limit.type), words_for(limit.mechanism));
  if (!limit.note.empty()) text += fmt::format(": {}", escaped(limit.note));
  for (const LimitRoute& route : limit.routes)
    text +=
        fmt::format("{}{} {}", &route == &limit.routes.front() ? ". Routes tried: " : ", ", code(route.name),
                    route.outcome == "escaped"     ? "**exceeded it**"
                    : route.outcome == "not_tried" ? "not tried"
                                                   : escaped(route.outcome));
  return text + "\n\n";
}

}  // namespace headroom::report
