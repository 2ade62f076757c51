#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::optional<Finding> oversized_workspace(const ModelResult& model, const BenchResult&) {
  if (!model.layers) return std::nullopt;
  Bytes workspace;
  for (const MemoryShare& share : model.layers->shares)
    if (share.kind == MemoryKind::workspace) workspace += share.bytes;
  if (workspace.count < kWorthTellingOfModels || workspace.count * 4 < model.layers->peak.count)
    return std::nullopt;
  Finding finding = new_finding("oversized-workspace", Severity::warning,
                                fmt::format("{} of {}'s peak were workspace of individual operators",
                                            format_bytes(workspace), model.name),
                                "Some algorithms trade memory for time: an unrolled convolution stores each "
                                "pixel once for each element of its kernel.",
                                Confidence::likely);
  finding.figures = {{"workspace_bytes", workspace.count}, {"peak_bytes", model.layers->peak.count}};
  if (!is_on_cpu(model))
    add_settings(finding, model, "choose convolutions that need little workspace", "workspace=small",
                 workspace);
  add_settings(finding, model, "use one thread: each thread has its own workspace (slower)", "threads=1");
  finding.cures.push_back({"see which operators use the workspace", "headroom bench --layers", {}});
  return finding;
}

}  // namespace headroom::doctor
