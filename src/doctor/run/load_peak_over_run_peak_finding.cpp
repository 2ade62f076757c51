#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::optional<Finding> load_peak_over_run_peak(const ModelResult& model, const BenchResult&) {
  const auto &load = model.memory.load_peak, &run = model.memory.run_peak;
  if (!load || !run || load->count - run->count < kWorthTellingOfModels || load->count * 4 < run->count * 5)
    return std::nullopt;
  Finding finding = new_finding(
      "load-peak-over-run-peak", Severity::warning,
      fmt::format("{} needs {} to load and {} to run", model.name, format_bytes(*load), format_bytes(*run)),
      "Loading holds the file, the weights and their re-packed copies at once.", Confidence::likely);
  finding.figures = {{"load_peak_bytes", load->count}, {"run_peak_bytes", run->count}};
  // Not mapped=on alone: the re-packed copies of what is mapped come on top of it (the run peak of a model
  // with large matrices grew by 78 %).
  if (can_map(model)) {
    finding.cures.push_back(with_settings(
        model, "map the weights from a prepared file, and keep no re-packed copies (may be slower)",
        "mapped=on,prepack=off", *load - *run));
  } else if (is_onnxruntime(model) && model.settings.prepacking) {
    finding.cures.push_back(
        with_settings(model, "keep no re-packed copies of the weights (may be slower)", "prepack=off"));
  }
  finding.cures.push_back({"load it first, before the other models", "headroom plan BUDGET.toml", {}});
  return finding;
}

}  // namespace headroom::doctor
