#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::optional<Finding> model_out_of_memory(const ModelResult& model) {
  if (model.status != ModelStatus::oom) return std::nullopt;
  const bool while_loading = model.died_in && *model.died_in < Phase::model_loaded;
  Finding finding = new_finding(
      "model-out-of-memory", Severity::severe,
      fmt::format("{} ran out of memory {}", model.name,
                  while_loading ? "while it was loaded" : "while it ran"),
      while_loading
          ? "Loading needs more than running: the file, the weights and their re-packed copies at once."
          : "What a run needs beside the weights did not fit.",
      Confidence::likely);
  finding.evidence = {{"", 0, model.error}};
  const auto add_figure = [&finding](const char* name, const std::optional<Bytes>& bytes) {
    if (bytes) finding.figures.push_back({name, bytes->count});
  };
  add_figure("load_peak_bytes", model.memory.load_peak);  // as far as it came
  add_figure("run_peak_bytes", model.memory.run_peak);
  add_figure("file_bytes", model.file_size);
  if (while_loading && can_map(model))
    finding.cures.push_back(with_settings(
        model, "map the weights from a file that is prepared once, without the limit or on a larger machine",
        "mapped=on,prepack=off", model.file_size));
  finding.cures.push_back({"search the settings that fit", "headroom bench --tune", {}});
  add_leaner_settings(finding, model);
  finding.cures.push_back(smaller_input());
  finding.cures.push_back({"measure what it needs where nothing limits it", "headroom bench", {}});
  finding.cures.push_back({"see which layers hold the memory", "headroom bench --layers", {}});
  return finding;
}

}  // namespace headroom::doctor
