#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

// What loading took may stay in the heap, where the run peak is no lower than the load peak: a model of 64
// MiB of weights that are transposed while it is loaded held 220 MiB from then on, and 76 with its weights
// mapped.
std::optional<Finding> loading_leaves_copies(const ModelResult& model, const BenchResult&) {
  const auto &loaded = model.memory.loaded, &runtime = model.memory.runtime, &file = model.file_size;
  if (!loaded || !runtime || !file || !can_map(model) || model.status != ModelStatus::ok) return std::nullopt;
  // The runtime's own code and tables take 20 to 40 MiB more with whatever model: 42 with one of 3.5 MiB.
  if (file->count < 2 * kWorthTellingOfModels) return std::nullopt;
  const Bytes holds = *loaded - *runtime;
  // Once as they are, and once re-packed, is what a model of matrices takes.
  if (holds.count < 2 * file->count + 2 * kWorthTellingOfModels) return std::nullopt;
  Finding finding = new_finding(
      "loading-leaves-copies", Severity::warning,
      fmt::format("{} holds {} after loading, {:.1f} times its file size of {}", model.name,
                  format_bytes(holds), static_cast<double>(holds.count) / static_cast<double>(file->count),
                  format_bytes(*file)),
      "Copies of the weights from loading are still in memory: in use, re-packed, or freed but kept by the "
      "heap.",
      Confidence::likely);
  finding.figures = {
      {"loaded_bytes", loaded->count}, {"runtime_bytes", runtime->count}, {"file_bytes", file->count}};
  finding.cures.push_back(with_settings(
      model, "map the weights from a prepared file, and keep no re-packed copies (may be slower)",
      "mapped=on,prepack=off", holds - *file));
  if (model.settings.prepacking)
    finding.cures.push_back(
        with_settings(model, "keep no re-packed copies of the weights (may be slower)", "prepack=off"));
  return finding;
}

}  // namespace headroom::doctor
